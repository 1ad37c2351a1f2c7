import { useEffect, useRef, useState } from 'react';
import { ApiError } from '../../api/error.ts';
import { useApi } from '../../api/hooks.ts';
import { formatCount, formatDurationMs, numberOrText } from '../../format/number.ts';
import { Button } from '../../ui/button.tsx';
import { classNames } from '../../ui/class-names.ts';
import { CopyButton } from '../../ui/copy-button.tsx';
import { TextArea, TextField } from '../../ui/field.tsx';
import { FormError } from '../../ui/form.tsx';
import { type ChatUsage, type Message, streamChat } from './stream-chat.ts';
import { Suggestions } from './suggestions.tsx';

type Turn = Message & { note?: string };

export function Chat({ model, onModelGone }: { model: string; onModelGone: () => void }) {
  const api = useApi();
  const [turns, setTurns] = useState<readonly Turn[]>([]);
  const [text, setText] = useState('');
  const [system, setSystem] = useState('');
  const [temperature, setTemperature] = useState('');
  const [maxTokens, setMaxTokens] = useState('');
  const [error, setError] = useState<ApiError | null>(null);
  const running = useRef<AbortController | null>(null);
  const [busy, setBusy] = useState(false);
  const log = useRef<HTMLDivElement>(null);
  const message = useRef<HTMLTextAreaElement>(null);
  useEffect(() => () => running.current?.abort(), []);
  const isAtEnd = useRef(true);
  // New text scrolls into view, unless the user is reading further up.
  useEffect(() => {
    if (turns.length > 0 && isAtEnd.current) log.current?.scrollTo({ top: log.current.scrollHeight });
  }, [turns]);

  const send = async () => {
    const prompt = text.trim();
    if (prompt === '' || model === '' || running.current !== null) return;
    const abort = new AbortController();
    running.current = abort;
    isAtEnd.current = true;
    const history: Turn[] = [...turns, { role: 'user', content: prompt }];
    setTurns([...history, { role: 'assistant', content: '' }]);
    setText('');
    setError(null);
    setBusy(true);
    const startedAt = performance.now();
    let answer = '';
    let firstAt = 0;
    let usage: ChatUsage | undefined;
    let finishReason: string | undefined;
    const show = (note?: string) =>
      setTurns([...history, { role: 'assistant', content: answer, ...(note === undefined ? {} : { note }) }]);
    try {
      const messages: Message[] = [
        ...(system.trim() === '' ? [] : [{ role: 'system' as const, content: system.trim() }]),
        // An answer that was stopped before its first word is none, and upstreams refuse an empty one.
        ...history.filter(({ content }) => content !== '').map(({ role, content }) => ({ role, content })),
      ];
      const options = {
        ...(temperature === '' ? {} : { temperature: numberOrText(temperature) }),
        ...(maxTokens === '' ? {} : { max_tokens: numberOrText(maxTokens) }),
      };
      for await (const piece of streamChat(api, { model, messages, ...options }, abort.signal)) {
        if (piece.text !== undefined) {
          if (firstAt === 0) firstAt = performance.now();
          answer += piece.text;
          show();
        }
        usage = piece.usage ?? usage;
        finishReason = piece.finishReason ?? finishReason;
      }
      show([...cutOff(finishReason), noteOf(startedAt, firstAt, usage)].join(' · '));
    } catch (failure) {
      if (failure instanceof ApiError && !abort.signal.aborted) {
        setError(failure);
        if (failure.status === 404 || failure.status === 410) onModelGone();
      }
      if (answer === '' && !abort.signal.aborted) {
        setTurns(turns);
        // The next message may already have been begun.
        setText((begun) => (begun.trim() === '' ? prompt : `${prompt}\n\n${begun}`));
      } else show(abort.signal.aborted ? 'Stopped' : 'Interrupted');
    } finally {
      running.current = null;
      setBusy(false);
      // Send cannot be focused while there is nothing to send, so whoever was on Stop continues in the message field.
      if (message.current?.form?.contains(document.activeElement)) message.current.focus();
    }
  };

  return (
    <div className="grid grid-cols-[minmax(0,1fr)] items-start gap-5 lg:grid-cols-[minmax(0,1fr)_17rem]">
      <div
        className={classNames(
          'grid min-w-0 grid-cols-[minmax(0,1fr)] gap-3 rounded-xl border border-line bg-surface',
          // Down to the end of the window, with the message always in sight.
          'lg:h-[calc(100dvh-14.5rem)] lg:min-h-96 lg:grid-rows-[minmax(0,1fr)_auto]',
        )}
      >
        <div
          ref={log}
          onScroll={({ currentTarget: { scrollHeight, clientHeight, scrollTop } }) => {
            isAtEnd.current = scrollHeight - clientHeight - scrollTop < 24;
          }}
          role="log"
          aria-label="Conversation"
          aria-live="polite"
          // Otherwise a screen reader starts over with each piece of an answer; so it reads the whole one at its end.
          aria-busy={busy}
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable by keyboard.
          tabIndex={0}
          className={classNames(
            'grid min-h-64 grid-cols-[minmax(0,1fr)] gap-4 overflow-y-auto p-4 max-lg:max-h-[60dvh] sm:p-5 lg:min-h-0',
            turns.length === 0 ? 'content-center-safe' : 'content-start',
          )}
        >
          {turns.length === 0 && (
            <Suggestions
              onChoose={(suggestion) => {
                setText(suggestion);
                message.current?.focus();
              }}
            />
          )}
          {turns.map((turn, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: turns are only added at the end.
            <TurnView key={index} turn={turn} busy={busy && index === turns.length - 1} />
          ))}
        </div>
        <div className="grid grid-cols-[minmax(0,1fr)] gap-3 border-t border-line p-3">
          <FormError error={error} />
          <form
            onSubmit={(event) => {
              event.preventDefault();
              void send();
            }}
            className="flex items-end gap-2"
          >
            <textarea
              ref={message}
              aria-label="Message"
              rows={2}
              placeholder="Write a message"
              aria-describedby="message-keys"
              value={text}
              onChange={(event) => setText(event.target.value)}
              onKeyDown={(event) => {
                if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
                event.preventDefault();
                void send();
              }}
              className="min-w-0 flex-1 resize-y rounded-md border border-edge bg-surface px-3 py-2 text-base"
            />
            {busy ? (
              <Button icon="stop" size="large" onClick={() => running.current?.abort()}>
                Stop
              </Button>
            ) : (
              <Button
                type="submit"
                look="primary"
                icon="send"
                size="large"
                disabled={text.trim() === '' || model === ''}
              >
                Send
              </Button>
            )}
          </form>
          <p id="message-keys" className="text-xs text-faint">
            Enter sends, Shift Enter adds a line.
          </p>
        </div>
      </div>
      <div className="grid gap-4 rounded-xl border border-line bg-surface p-4">
        <TextArea label="System message" rows={4} value={system} onChange={setSystem} placeholder="None" />
        <TextField
          label="Temperature"
          inputMode="decimal"
          placeholder="Model default"
          value={temperature}
          onChange={setTemperature}
        />
        <TextField
          label="Maximum tokens"
          inputMode="numeric"
          placeholder="Model default"
          value={maxTokens}
          onChange={setMaxTokens}
        />
        <Button disabled={turns.length === 0 || busy} onClick={() => setTurns([])}>
          Clear conversation
        </Button>
      </div>
    </div>
  );
}

function TurnView({ turn, busy }: { turn: Turn; busy: boolean }) {
  const mine = turn.role === 'user';
  return (
    <article className={classNames('grid min-w-0 gap-1', mine && 'justify-items-end')}>
      <span className="text-xs font-medium text-faint">{mine ? 'You' : 'Model'}</span>
      {/* A browser that translates the page puts its own text in place of this one, which then grows no more. */}
      <div
        translate="no"
        className={classNames(
          'max-w-full rounded-xl text-base leading-relaxed whitespace-pre-wrap wrap-anywhere',
          mine && 'bg-sunken px-3.5 py-2',
        )}
      >
        {turn.content}
        {busy && <span className="animate-pulse-soft ml-0.5 inline-block h-4 w-1.5 translate-y-0.5 bg-ink" />}
      </div>
      {turn.note !== undefined && (
        <span className="flex items-center gap-2 text-xs text-faint">
          {turn.note}
          {turn.content !== '' && <CopyButton text={turn.content} />}
        </span>
      )}
    </article>
  );
}

/** Why an answer is incomplete although its stream ended properly; empty if it is not. */
function cutOff(finishReason: string | undefined): string[] {
  if (finishReason === 'length') return ['Cut off at the maximum number of tokens'];
  return finishReason === 'content_filter' ? ['Cut off by a content filter'] : [];
}

function noteOf(startedAt: number, firstAt: number, usage: ChatUsage | undefined): string {
  const parts = [`${formatDurationMs(performance.now() - startedAt)} in total`];
  if (firstAt > 0) parts.unshift(`first token after ${formatDurationMs(firstAt - startedAt)}`);
  if (usage !== undefined)
    parts.push(`${formatCount(usage.prompt_tokens)} + ${formatCount(usage.completion_tokens)} tokens`);
  return parts.join(' · ');
}
