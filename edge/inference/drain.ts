import type { ServerResponse } from 'node:http';

/** Waits until the client has taken what was written. Ends early when it has gone, as one has that took nothing (edge/http/slow-clients.ts). */
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
