import { Tinypool } from 'tinypool';
import { createOneThread } from '#shared/one-thread.ts';
import type { BodyPiece } from '../upstream/upstream.ts';

/** Reads how long audio files are, one at a time, in a thread: a broken file can send the library into an endless loop. */
export type AudioLengthReader = {
  /** In milliseconds; null when the file does not tell, or not in time. Never rejects. */
  read(audio: BodyPiece): Promise<number | null>;
  /** Ends the thread; whoever still waits gets null. */
  close(): Promise<void>;
};

/** Most files take some milliseconds, 25 MiB of MP3 in its shortest frames a second, and starting the thread half a second. */
const readMsMax = 3_000;
/** Callers delay an answer for this long at most. */
const waitMsMax = 6_000;
/** For JavaScript's heap, beside the file itself. A file whose tables need more ends the thread, and nothing else. */
const heapMbMax = 512;

export function createAudioLengthReader(): AudioLengthReader {
  const thread = createOneThread(new URL('./audio-length-thread.ts', import.meta.url), {
    maxOldGenerationSizeMb: heapMbMax,
  });
  return {
    async read(audio) {
      const waiting = AbortSignal.timeout(waitMsMax);
      const length = thread.inTurn(async (run): Promise<number | null> => {
        if (waiting.aborted) return null;
        // Copied, since moving a view would move its whole buffer.
        const task = 'file' in audio ? audio : Tinypool.move(Uint8Array.from(audio));
        return run(task, { signal: AbortSignal.any([waiting, AbortSignal.timeout(readMsMax)]) });
      });
      return length.catch(() => null);
    },
    close: () => thread.close(),
  };
}
