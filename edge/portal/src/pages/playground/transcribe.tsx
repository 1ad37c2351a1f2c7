import { useEffect, useRef, useState } from 'react';
import { useApi } from '../../api/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Notice } from '../../ui/notice.tsx';
import { decodeFile, listen, openTranscriber, sampleRateHz, type Transcriber } from './transcriber.ts';

type Line = { id: string; text: string; final: boolean };

export function Transcribe({ model }: { model: string }) {
  const api = useApi();
  const [lines, setLines] = useState<readonly Line[]>([]);
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState<'microphone' | 'rest' | 'file' | null>(null);
  /** Drops everything; `end` stops the microphone alone and waits for what was said. */
  const stop = useRef<(() => void) | null>(null);
  const end = useRef<(() => void) | null>(null);
  const stopping = useRef(false);
  const picker = useRef<HTMLInputElement>(null);
  useEffect(() => () => stop.current?.(), []);

  const open = (detectSpeech: boolean): Promise<Transcriber> =>
    openTranscriber(api, model, detectSpeech, {
      onText: (id, text, final) => {
        setLines((before) => [...before.filter((line) => line.id !== id), { id, text, final }]);
        // A file is one utterance, and so is what was said before the microphone stopped: with its text the work is done.
        if (final && (!detectSpeech || stopping.current)) finish();
      },
      onError: (message) => {
        // Nothing was said since the last utterance.
        if (stopping.current) finish();
        else setError(message);
      },
      onClose: (reason) => {
        if (reason !== null) setError(reason);
        finish();
      },
    });
  const finish = () => {
    stopping.current = false;
    stop.current?.();
    stop.current = null;
    end.current = null;
    setBusy(null);
  };
  const begin = (kind: 'microphone' | 'file') => {
    setError(null);
    setLines([]);
    setBusy(kind);
  };
  const fail = (failure: unknown, text: string) => {
    setError(failure instanceof Error && failure.message !== '' ? `${text} ${failure.message}` : text);
    finish();
  };

  const fromMicrophone = async () => {
    begin('microphone');
    try {
      const transcriber = await open(true);
      stop.current = transcriber.close;
      const microphone = await listen(transcriber.append);
      stop.current = () => {
        microphone.stop();
        transcriber.close();
      };
      end.current = () => {
        stopping.current = true;
        microphone.stop();
        transcriber.commit();
        setBusy('rest');
      };
    } catch (failure) {
      fail(failure, 'The microphone cannot be used.');
    }
  };
  const fromFile = async (file: File) => {
    begin('file');
    try {
      const samples = await decodeFile(file);
      const transcriber = await open(false);
      stop.current = transcriber.close;
      for (let at = 0; at < samples.length; at += sampleRateHz)
        transcriber.append(samples.subarray(at, at + sampleRateHz));
      transcriber.commit();
    } catch (failure) {
      fail(failure, 'This file cannot be read as audio.');
    }
  };

  const text = lines.map((line) => line.text).join('\n');
  return (
    <Card
      title="Transcribe"
      description="Live by the realtime socket, from your microphone or a file."
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
          <Button icon="stop" onClick={busy === 'microphone' ? () => (end.current ?? finish)() : finish}>
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
          <EmptyState icon="mic" title="Nothing transcribed yet">
            What you say appears here while you speak. It is metered by the second, like any other call.
          </EmptyState>
        )}
        {lines.length === 0 && busy !== null && (
          <p className="animate-pulse-soft text-sm text-faint">{busy === 'rest' ? 'Transcribing…' : 'Listening…'}</p>
        )}
        {lines.map((line) => (
          <p key={line.id} className={line.final ? 'text-base wrap-anywhere' : 'text-base text-soft wrap-anywhere'}>
            {line.text}
          </p>
        ))}
      </div>
    </Card>
  );
}
