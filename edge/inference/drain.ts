import type { ServerResponse } from 'node:http';

/** A client that takes nothing for this long is cut off: it holds an upstream and memory (security.md, SSE slow reader). */
const stalledMsMax = 60_000;

/** Waits until the client has taken what was written. Ends early when it has gone; one that has stalled is cut off. */
export const drained = (raw: ServerResponse, gone: AbortSignal, stalledMs = stalledMsMax): Promise<void> =>
  new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(stalled);
      raw.off('drain', done);
      gone.removeEventListener('abort', done);
      resolve();
    };
    const stalled = setTimeout(() => {
      raw.destroy();
      done();
    }, stalledMs);
    raw.once('drain', done);
    gone.addEventListener('abort', done, { once: true });
  });
