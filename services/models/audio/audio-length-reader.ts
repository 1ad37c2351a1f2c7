import pLimit from 'p-limit';
import { Tinypool } from 'tinypool';
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
/** A thread that was idle for this long is ended: it takes some 50 MiB. */
const idleMsMax = 60_000;

/** The thread starts with the first file, since many processes never get one. */
export function createAudioLengthReader(): AudioLengthReader {
  const oneAtATime = pLimit(1);
  const closing = new AbortController();
  let pool: Tinypool | undefined;

  function startPool(): Tinypool {
    const started = new Tinypool({
      filename: new URL('./audio-length-thread.ts', import.meta.url).href,
      minThreads: 0,
      maxThreads: 1,
      idleTimeout: idleMsMax,
      resourceLimits: { maxOldGenerationSizeMb: heapMbMax },
    });
    // A promise of the library that fails after its answer ends the thread; the next file gets a new one.
    started.on('error', () => {});
    return started;
  }

  return {
    async read(audio) {
      const waiting = AbortSignal.any([closing.signal, AbortSignal.timeout(waitMsMax)]);
      const read = async (): Promise<number | null> => {
        if (waiting.aborted) return null;
        pool ??= startPool();
        // Copied, since moving a view would move its whole buffer.
        const task = 'file' in audio ? audio : Tinypool.move(Uint8Array.from(audio));
        return pool.run(task, { signal: AbortSignal.any([waiting, AbortSignal.timeout(readMsMax)]) });
      };
      return oneAtATime(read).catch(() => null);
    },
    async close() {
      closing.abort();
      await pool?.destroy();
    },
  };
}
