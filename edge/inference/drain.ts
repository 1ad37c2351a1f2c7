import type { ServerResponse } from 'node:http';

/**
 * Waits until the client has taken what was written. Ends early when the client has gone, or was cut off because it took nothing
 * (edge/http/slow-clients.ts).
 */
export const drained = (raw: ServerResponse, gone: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const done = (): void => {
      raw.off('drain', done);
      gone.removeEventListener('abort', done);
      resolve();
    };
    raw.once('drain', done);
    gone.addEventListener('abort', done, { once: true });
    if (gone.aborted) done();
  });
