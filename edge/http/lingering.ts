import type { IncomingMessage } from 'node:http';

/** How much of a refused body is read and discarded, and for how long: enough for a client in good faith, not for an attacker. */
const restBytesMax = 64 * 1024 * 1024;
const restMsMax = 30_000;

/** The answer to a request whose body is still arriving. It ends only after the rest has come. */
export async function* lingering(answer: string, request: IncomingMessage): AsyncGenerator<string> {
  yield answer;
  if (!request.destroyed) await discardRest(request);
}

/**
 * Resolves once the rest of a refused body has come, within bounds: a connection closed with unread bytes is reset, and its client may
 * never see the answer (RFC 9112 section 9.6).
 */
export const discardRest = (request: IncomingMessage): Promise<void> =>
  new Promise((resolve) => {
    let restBytes = 0;
    const discard = ({ length }: Buffer): void => {
      restBytes += length;
      if (restBytes > restBytesMax) done();
    };
    const done = (): void => {
      clearTimeout(patience);
      request.off('data', discard).off('end', done).off('close', done);
      resolve();
    };
    const patience = setTimeout(done, restMsMax);
    request.on('data', discard).on('end', done).on('close', done).resume();
  });
