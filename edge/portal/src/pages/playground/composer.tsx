import type { Ref } from 'react';
import { Button } from '../../ui/button.tsx';

type ComposerProps = {
  ref?: Ref<HTMLTextAreaElement>;
  label: string;
  placeholder: string;
  text: string;
  onType: (text: string) => void;
  /** What sending it is called. */
  action: string;
  onSend: () => void;
  busy: boolean;
  onStop: () => void;
  onEscape?: () => void;
};

/** A text for a model, and the button that sends it or, while there is no answer yet, stops waiting for that. */
export function Composer({
  ref,
  label,
  placeholder,
  text,
  onType,
  action,
  onSend,
  busy,
  onStop,
  onEscape,
}: ComposerProps) {
  // A keyboard on the screen has no Shift Enter.
  const entersSend = !window.matchMedia('(pointer: coarse)').matches;
  return (
    <>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onSend();
        }}
        className="flex items-end gap-2"
      >
        <textarea
          ref={ref}
          aria-label={label}
          rows={2}
          placeholder={placeholder}
          aria-describedby={entersSend ? 'message-keys' : undefined}
          value={text}
          onChange={(event) => onType(event.target.value)}
          onKeyDown={(event) => {
            if (event.nativeEvent.isComposing) return;
            if (event.key === 'Escape') onEscape?.();
            if (!entersSend || event.key !== 'Enter' || event.shiftKey) return;
            event.preventDefault();
            onSend();
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
              onStop();
            }}
          >
            Stop
          </Button>
        ) : (
          <Button type="submit" look="primary" icon="send" size="large" disabled={text.trim() === ''}>
            {action}
          </Button>
        )}
      </form>
      {entersSend && (
        <p id="message-keys" className="text-xs text-faint">
          Enter sends, Shift Enter adds a line.
        </p>
      )}
    </>
  );
}
