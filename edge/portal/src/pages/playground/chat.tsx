import { useDeferredValue, useEffect, useRef, useState } from 'react';
import { asItIs, useKeptState } from '../../api/kept-state.ts';
import { Button } from '../../ui/button.tsx';
import { classNames } from '../../ui/class-names.ts';
import { Checkbox, TextArea, TextField } from '../../ui/field.tsx';
import { FormError } from '../../ui/form.tsx';
import { asked, lastOfUser, requestOf } from './chat-request.ts';
import { Suggestions } from './suggestions.tsx';
import { TurnView } from './turn.tsx';
import { useConversation } from './use-conversation.ts';
import { ViewCode } from './view-code.tsx';

export function Chat({ model, onModelGone }: { model: string; onModelGone: () => void }) {
  const { turns: latest, error, busy, isBusy, ask, stop, clear } = useConversation(onModelGone);
  // Where drawing takes longer than the next piece of an answer takes to come, pieces are drawn together.
  const turns = useDeferredValue(latest);
  const [text, setText] = useKeptState('chat message', '', asItIs);
  /** What was in the message field before the last message was put there to be edited; null while it is not. */
  const [draft, setDraft] = useKeptState<string | null>('chat draft', null, asItIs);
  const isEditing = draft !== null;
  const [system, setSystem] = useKeptState('chat system', '', asItIs);
  const [temperature, setTemperature] = useKeptState('chat temperature', '', asItIs);
  const [maxTokens, setMaxTokens] = useKeptState('chat maximum', '', asItIs);
  const [formatted, setFormatted] = useKeptState('chat formatted', true, asItIs);
  const [viewingCode, setViewingCode] = useState(false);
  const settings = { model, system, temperature, maxTokens };
  const messages = asked(isEditing ? turns.slice(0, lastOfUser(turns)) : turns, text);
  const log = useRef<HTMLDivElement>(null);
  const message = useRef<HTMLTextAreaElement>(null);
  const isAtEnd = useRef(true);
  // A keyboard on the screen has no Shift Enter.
  const entersSend = !window.matchMedia('(pointer: coarse)').matches;
  // New text scrolls into view, unless the user is reading further up.
  useEffect(() => {
    if (turns.length > 0 && isAtEnd.current) log.current?.scrollTo({ top: log.current.scrollHeight });
  }, [turns]);

  const submit = async () => {
    const prompt = text.trim();
    if (prompt === '' || model === '' || isBusy()) return;
    isAtEnd.current = true;
    setText(draft ?? '');
    setDraft(null);
    const said = await ask(asked(isEditing ? latest.slice(0, lastOfUser(latest)) : latest, prompt), settings);
    // The next message may already have been begun.
    if (!said && isEditing) {
      setDraft(message.current?.value ?? draft);
      setText(prompt);
    } else if (!said) setText((begun) => (begun.trim() === '' ? prompt : `${prompt}\n\n${begun}`));
    // Send cannot be focused while there is nothing to send, so whoever was on Stop continues in the message field.
    if (message.current?.form?.contains(document.activeElement)) message.current.focus();
  };
  const regenerate = () => {
    if (model === '' || isBusy()) return;
    isAtEnd.current = true;
    // Where the answer grows: the button that was pressed is no more.
    log.current?.focus({ preventScroll: true });
    void ask(asked(latest, ''), settings);
  };
  const edit = () => {
    setDraft(text);
    setText(latest[lastOfUser(latest)]?.content ?? '');
    message.current?.focus();
  };
  const endEditing = () => {
    setText(draft ?? '');
    setDraft(null);
    message.current?.focus();
  };

  const actionsOn = (index: number) => {
    if (busy || isEditing) return;
    if (index === turns.length - 1) {
      return (
        <Button size="small" icon="refresh" onClick={regenerate}>
          Regenerate
        </Button>
      );
    }
    return index !== lastOfUser(turns) ? undefined : (
      <Button size="small" icon="edit" onClick={edit}>
        Edit
      </Button>
    );
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
            <TurnView
              // biome-ignore lint/suspicious/noArrayIndexKey: turns are only added and replaced at the end.
              key={index}
              turn={turn}
              busy={busy && index === turns.length - 1}
              formatted={formatted}
              actions={actionsOn(index)}
            />
          ))}
        </div>
        <div className="grid grid-cols-[minmax(0,1fr)] gap-3 border-t border-line p-3">
          <FormError error={error} />
          <form
            onSubmit={(event) => {
              event.preventDefault();
              void submit();
            }}
            className="flex items-end gap-2"
          >
            <textarea
              ref={message}
              aria-label="Message"
              rows={2}
              placeholder="Write a message"
              aria-describedby={entersSend ? 'message-keys' : undefined}
              value={text}
              onChange={(event) => setText(event.target.value)}
              onKeyDown={(event) => {
                if (event.nativeEvent.isComposing) return;
                if (event.key === 'Escape' && isEditing) endEditing();
                if (!entersSend || event.key !== 'Enter' || event.shiftKey) return;
                event.preventDefault();
                void submit();
              }}
              className="min-w-0 flex-1 resize-y rounded-md border border-edge bg-surface px-3 py-2 text-base"
            />
            {busy ? (
              <Button
                icon="stop"
                size="large"
                onClick={(event) => {
                  // By the end of this click the same element may be Send, which would send what is in the field.
                  event.preventDefault();
                  stop();
                }}
              >
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
          {isEditing && (
            <p className="flex flex-wrap items-center gap-2 text-xs text-faint">
              Replaces your last message and its answer.
              <Button size="small" onClick={endEditing}>
                Cancel
              </Button>
            </p>
          )}
          {entersSend && (
            <p id="message-keys" className="text-xs text-faint">
              Enter sends, Shift Enter adds a line.
            </p>
          )}
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
        <Checkbox label="Format answers" checked={formatted} onChange={setFormatted} />
        <Button icon="code" disabled={messages.length === 0} onClick={() => setViewingCode(true)}>
          View code
        </Button>
        <Button
          disabled={turns.length === 0 || busy}
          onClick={() => {
            if (isEditing) endEditing();
            clear();
          }}
        >
          Clear conversation
        </Button>
      </div>
      {viewingCode && <ViewCode request={requestOf(messages, settings)} onClose={() => setViewingCode(false)} />}
    </div>
  );
}
