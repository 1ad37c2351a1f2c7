import { writeSync } from 'node:fs';
import type { DestinationStream } from 'pino';

/** How many bytes of lines may wait for a reader. */
const waitingBytesMax = 1024 * 1024;
const retryMs = 100;
/** How long the exit of this process waits for the reader of its last lines, and how often it tries to write them, in milliseconds. */
const exitMsMax = 1_000;
const exitRetryMs = 5;

/**
 * Writes lines to standard error. Each is written at once, so that a crash loses none. But if nobody reads them, for instance because the
 * disk of the log collector is full, a write that waits would stop this process. So lines that cannot be written wait, as far as there is
 * room, and once somebody reads again, `onLeftOut` gets the number of those that were left out.
 */
export function standardError(onLeftOut: (lines: number) => void): DestinationStream {
  // Node makes a pipe non-blocking when this stream is first used.
  const { fd } = process.stderr;
  const waiting: Buffer[] = [];
  let waitingBytes = 0;
  let leftOut = 0;

  const send = (): void => {
    for (;;) {
      const line = waiting[0];
      if (line === undefined) return;
      let written: number;
      try {
        written = writeSync(fd, line);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return;
        // Nobody can read this line: its reader is gone, or it is a file on a full disk.
        written = line.length;
      }
      waitingBytes -= written;
      if (written < line.length) waiting[0] = line.subarray(written);
      else waiting.shift();
    }
  };
  const sendAtExit = (): void => {
    const untilMs = performance.now() + exitMsMax;
    const pause = new Int32Array(new SharedArrayBuffer(4));
    for (send(); waiting.length > 0 && performance.now() < untilMs; send()) Atomics.wait(pause, 0, 0, exitRetryMs);
  };
  const sendLater = (): void => {
    setTimeout(() => {
      send();
      if (waiting.length > 0) {
        sendLater();
        return;
      }
      process.off('exit', sendAtExit);
      const lines = leftOut;
      leftOut = 0;
      if (lines > 0) onLeftOut(lines);
    }, retryMs).unref();
  };

  return {
    write(text) {
      const line = Buffer.from(text);
      const isFirst = waiting.length === 0;
      if (!isFirst && waitingBytes + line.length > waitingBytesMax) {
        leftOut += 1;
        return;
      }
      waiting.push(line);
      waitingBytes += line.length;
      if (!isFirst) return;
      send();
      if (waiting.length === 0) return;
      process.on('exit', sendAtExit);
      sendLater();
    },
  };
}
