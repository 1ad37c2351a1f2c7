import { useDeferredValue, useEffect, useRef, useState } from 'react';
import { asItIs, useKeptState } from '../../api/kept-state.ts';
import { Button } from '../../ui/button.tsx';
import { Checkbox, TextArea, TextField } from '../../ui/field.tsx';
import { FormError } from '../../ui/form.tsx';
import { asked, lastOfUser, requestOf } from './chat-request.ts';
import { Composer } from './composer.tsx';
import { Suggestions } from './suggestions.tsx';
import { TurnView } from './turn.tsx';
import { useConversation } from './use-conversation.ts';
import { ViewCode } from './view-code.tsx';
import { answersClass, Workspace } from './workspace.tsx';

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
  const [sendsPictures, setSendsPictures] = useKeptState('chat pictures', true, asItIs);
  const [viewingCode, setViewingCode] = useState(false);
  const settings = { model, system, temperature, maxTokens, sendsPictures };
  const messages = asked(isEditing ? turns.slice(0, lastOfUser(turns)) : turns, text);
  const log = useRef<HTMLDivElement>(null);
  const message = useRef<HTMLTextAreaElement>(null);
  const isAtEnd = useRef(true);
  // New text scrolls into view, unless the user is reading further up.
  useEffect(() => {
    if (turns.length > 0 && isAtEnd.current) log.current?.scrollTo({ top: log.current.scrollHeight });
  }, [turns]);

  const submit = async () => {
    const prompt = text.trim();
    if (prompt === '' || isBusy()) return;
    isAtEnd.current = true;
    setText(draft ?? '');
    setDraft(null);
    const said = await ask(asked(isEditing ? latest.slice(0, lastOfUser(latest)) : latest, prompt), settings);
    // The next message may already have been begun.
    if (!said) {
      setText((begun) => {
        if (!isEditing) return begun.trim() === '' ? prompt : `${prompt}\n\n${begun}`;
        setDraft(begun);
        return prompt;
      });
    }
    // Where Stop was is Send, with nothing to send, so whoever was on it continues in the message field.
    if (message.current?.form?.contains(document.activeElement)) message.current.focus();
  };
  const regenerate = () => {
    if (isBusy()) return;
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
    <Workspace
      composer={
        <>
          <FormError error={error} />
          {isEditing && (
            <p className="flex flex-wrap items-center gap-2 text-xs text-faint">
              Replaces your last message and its answer.
              <Button size="small" onClick={endEditing}>
                Cancel
              </Button>
            </p>
          )}
          <Composer
            ref={message}
            label="Message"
            placeholder="Write a message"
            text={text}
            onType={setText}
            action="Send"
            onSend={() => void submit()}
            busy={busy}
            onStop={stop}
            onEscape={() => isEditing && endEditing()}
          />
        </>
      }
      settings={
        <>
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
          {turns.some(({ images = [] }) => images.length > 0) && (
            <Checkbox label="Send drawn pictures back" checked={sendsPictures} onChange={setSendsPictures} />
          )}
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
        </>
      }
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
        className={answersClass(turns.length === 0)}
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
      {viewingCode && <ViewCode request={requestOf(messages, settings)} onClose={() => setViewingCode(false)} />}
    </Workspace>
  );
}
