import { writeSync } from 'node:fs';
import type { DestinationStream } from 'pino';

/** What waits for a reader who will go on soon, in bytes. */
const waitingBytesMax = 1024 * 1024;
const retryMs = 100;

/**
 * Takes lines for standard error. Each is written before anything else happens, so that an end of this process cuts none off; but where
 * nobody reads, as when whoever collects logs has a full disk, this process would stand still with them. So lines wait there, as far as
 * there is room, and how many were left out is told to `onLeftOut` once somebody reads again.
 */
export function standardError(onLeftOut: (lines: number) => void): DestinationStream {
  // Node has a pipe not block as soon as this stream is made.
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
        // Its reader is gone, or it is a file on a full disk.
        written = line.length;
      }
      waitingBytes -= written;
      if (written < line.length) waiting[0] = line.subarray(written);
      else waiting.shift();
    }
  };
  const sendLater = (): void => {
    setTimeout(() => {
      send();
      if (waiting.length > 0) {
        sendLater();
        return;
      }
      process.off('exit', send);
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
      process.on('exit', send);
      sendLater();
    },
  };
}
