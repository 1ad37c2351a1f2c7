import { useEffect, useRef, useState } from 'react';
import { ApiError } from '../../api/error.ts';
import { useApi } from '../../api/hooks.ts';
import { asItIs, useKeptState } from '../../api/kept-state.ts';
import {
  decodeFile,
  type Line,
  listen,
  openTranscriber,
  sampleRateHz,
  type Transcriber,
  utteranceSecondsMax,
  utteranceSecondsMin,
} from './transcriber.ts';

const utteranceSamplesMax = utteranceSecondsMax * sampleRateHz;

/** The length of a file, in samples, without what is left beyond its last whole utterance if that is too short to be one. */
function withoutCrumb(length: number): number {
  const left = length % utteranceSamplesMax;
  const isCrumb = left < utteranceSecondsMin * sampleRateHz && left < length;
  return isCrumb ? length - left : length;
}

/**
 * A transcript from the microphone or a file, one at a time. `onRefused` is told when something was refused: perhaps because the model is no
 * longer there.
 */
export function useTranscription(model: string, onRefused: () => void) {
  const api = useApi();
  const [lines, setLines] = useKeptState<readonly Line[]>('transcript', [], asItIs);
  const [error, setError] = useState<string | null>(null);
  /** What is heard, or `rest`: what was said until the microphone was stopped is still transcribed. */
  const [busy, setBusy] = useState<'microphone' | 'rest' | 'file' | null>(null);
  /** Whether all that was last said or sent has been transcribed. */
  const [isDone, setDone] = useState(false);
  /** Aborting this drops everything, whatever its state; `end` only stops the microphone and waits for what was said. */
  const work = useRef(new AbortController());
  const end = useRef<(() => void) | null>(null);

  const open = (detectSpeech: boolean, signal: AbortSignal): Promise<Transcriber> =>
    openTranscriber(api, model, detectSpeech, signal, {
      onLines: setLines,
      onError: (message, of) => {
        setError(message);
        onRefused();
        // Of a file, nothing was heard; the microphone goes on until it is stopped.
        if (of === 'session' && !detectSpeech) finish();
      },
      onDone: () => {
        setDone(true);
        finish();
      },
      onClose: (reason) => {
        if (reason !== null) {
          setError(reason);
          onRefused();
        }
        finish();
      },
    });
  const finish = () => {
    work.current.abort();
    end.current = null;
    setBusy(null);
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: finish is created anew on each render but always does the same.
  useEffect(() => finish, []);
  const begin = (kind: 'microphone' | 'file'): AbortSignal => {
    setError(null);
    setDone(false);
    setLines([]);
    setBusy(kind);
    work.current = new AbortController();
    return work.current.signal;
  };
  const fail = (signal: AbortSignal, failure: unknown, text: string) => {
    // Whoever ended it knows, and may have started again.
    if (signal.aborted) return;
    const why = failure instanceof Error ? failure.message : '';
    // Of the gateway, which has nothing to do with the microphone or the file.
    setError(failure instanceof ApiError ? why : `${text} ${why}`.trim());
    finish();
  };

  const fromMicrophone = async () => {
    const signal = begin('microphone');
    try {
      const transcriber = await open(true, signal);
      const microphone = await listen(transcriber.append, signal);
      end.current = () => {
        microphone.stop();
        setBusy('rest');
        void transcriber.commit();
        transcriber.end();
      };
    } catch (failure) {
      fail(signal, failure, 'The microphone cannot be used.');
    }
  };
  const fromFile = async (file: File) => {
    const signal = begin('file');
    try {
      const sound = await decodeFile(file);
      const length = withoutCrumb(sound.length);
      const transcriber = await open(false, signal);
      for (let at = 0; at < length && !signal.aborted; ) {
        const end = Math.min(at + utteranceSamplesMax, length);
        for (; at < end; at += sampleRateHz) transcriber.append(sound.part(at, Math.min(at + sampleRateHz, end)));
        at = end;
        // No faster than it is taken: a long file would fill the page's memory, and Stop would spare nothing of it.
        await transcriber.commit();
      }
      transcriber.end();
    } catch (failure) {
      fail(signal, failure, 'This file cannot be read as audio.');
    }
  };

  const stop = () => {
    if (busy === 'microphone' && end.current !== null) end.current();
    else finish();
  };
  return { lines, error, busy, isDone, fromMicrophone, fromFile, stop };
}
