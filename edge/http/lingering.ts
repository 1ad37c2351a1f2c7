import type { IncomingMessage } from 'node:http';

/** How much of a refused body is read and thrown away, and for how long: that of a client of good will, not an attacker's. */
const restBytesMax = 64 * 1024 * 1024;
const restMsMax = 30_000;

/**
 * The answer to a request whose body is still on its way. It ends only when the rest has come, within bounds: a connection that closes
 * with bytes unread is reset, and its client may never see what it was answered (RFC 9112 section 9.6).
 */
export async function* lingering(answer: string, request: IncomingMessage): AsyncGenerator<string> {
  yield answer;
  if (!request.destroyed) await discardRest(request);
}

const discardRest = (request: IncomingMessage): Promise<void> =>
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
