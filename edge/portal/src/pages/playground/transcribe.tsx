import { useRef } from 'react';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Notice } from '../../ui/notice.tsx';
import { useTranscription } from './use-transcription.ts';

type TranscribeProps = {
  model: string;
  /** Something was refused: perhaps because the model is no longer there. */
  onModelGone: () => void;
};

export function Transcribe({ model, onModelGone }: TranscribeProps) {
  const { lines, error, busy, isDone, fromMicrophone, fromFile, stop } = useTranscription(model, onModelGone);
  const picker = useRef<HTMLInputElement>(null);
  const text = lines.map((line) => line.text).join('\n');
  return (
    <Card
      title="Transcribe"
      description="Live over the realtime socket, from your microphone or a file."
      // As high as the chat.
      className="lg:min-h-[calc(100dvh-14.5rem)]"
      action={text === '' ? undefined : <CopyButton text={text} />}
    >
      <div className="mb-4 flex flex-wrap gap-2">
        {busy === null ? (
          <>
            <Button look="primary" icon="mic" disabled={model === ''} onClick={() => void fromMicrophone()}>
              Speak
            </Button>
            <Button icon="plus" disabled={model === ''} onClick={() => picker.current?.click()}>
              Choose a file
            </Button>
          </>
        ) : (
          <Button icon="stop" onClick={stop}>
            {busy === 'microphone' ? 'Stop listening' : 'Stop'}
          </Button>
        )}
        <input
          ref={picker}
          type="file"
          accept="audio/*,video/mp4,video/webm"
          aria-label="Audio file"
          className="sr-only"
          tabIndex={-1}
          onChange={(event) => {
            const file = event.target.files?.[0];
            event.target.value = '';
            if (file !== undefined) void fromFile(file);
          }}
        />
      </div>
      {error !== null && (
        <Notice tone="danger" role="alert" className="mb-4">
          {error}
        </Notice>
      )}
      <div role="log" aria-label="Transcript" aria-live="polite" className="grid gap-2">
        {lines.length === 0 && busy === null && (
          <EmptyState icon="mic" title={isDone ? 'No words were heard' : 'Nothing transcribed yet'}>
            What you say appears here while you speak. It is metered like any other call.
          </EmptyState>
        )}
        {lines.length === 0 && busy !== null && (
          <p className="animate-pulse-soft text-sm text-faint">
            {busy === 'microphone' ? 'Listening…' : 'Transcribing…'}
          </p>
        )}
        {lines.map((line) => (
          <p
            key={line.id}
            dir="auto"
            className={line.final ? 'text-base wrap-anywhere' : 'text-base text-soft wrap-anywhere'}
          >
            {line.text}
          </p>
        ))}
      </div>
    </Card>
  );
}
