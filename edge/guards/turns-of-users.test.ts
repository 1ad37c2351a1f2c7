import { request } from 'node:http';
import type { AddressInfo } from 'node:net';
import fastify, { type FastifyReply, type FastifyRequest } from 'fastify';
import { expect, test } from 'vitest';
import { startStopwatch } from '../../test/support/stopwatch.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { installErrors } from '../http/errors.ts';
import type { Principal } from '../principal.ts';
import { installAccess } from './access.ts';
import { atOnceMax, takeTurns } from './turns-of-users.ts';

/** An app that holds its answers, whose callers are named by their tokens; `ended` are refused. Every `checkMs` it looks at who waits. */
async function listen(checkMs: number) {
  const held: FastifyReply[] = [];
  const ended = new Set<string>();
  const came: FastifyRequest[] = [];
  const app = fastify();
  app.addHook('onRequest', async (request) => void came.push(request));
  installErrors(app);
  takeTurns(app, checkMs);
  const authenticate = (userId: string) => {
    if (ended.has(userId)) throw new Error(`${userId} has ended`);
    return { kind: 'session', userId } as Principal;
  };
  installAccess(app, { authenticate, onEnded: () => () => {}, isFollowed: () => true });
  const hold = (_request: unknown, reply: FastifyReply): void => void held.push(reply);
  app.get('/read', { config: { access: { surface: 'session' } } }, hold);
  app.delete('/change', { config: { access: { surface: 'session' } } }, hold);
  app.get('/work', { config: { access: { surface: 'session' }, startsWork: true } }, hold);
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const statuses: number[] = [];
  const send = (userId: string, method: string, path: string) =>
    request({ port, method, path, headers: { authorization: `Bearer ${userId}` } })
      .on('response', (response) => statuses.push(response.resume().statusCode!))
      .on('error', () => {})
      .end();
  const served = (count: number) => waitFor(() => held.length === count, { description: `${count} being served` });
  const arrived = (count: number) => waitFor(() => came.length === count, { description: `${count} requests` });
  const close = () => {
    app.server.closeAllConnections();
    return app.close();
  };
  return { came, held, ended, statuses, send, served, arrived, [Symbol.asyncDispose]: close };
}

test('one user’s reads are served a few at a time, and hold up neither their changes nor their calls nor anybody else', async () => {
  await using app = await listen(60_000);
  const { came, held, ended, statuses, send, served, arrived } = app;
  const [leaving] = Array.from({ length: atOnceMax }, () => send('flooder', 'GET', '/read'));
  await served(atOnceMax);
  const waiting = send('flooder', 'GET', '/read');
  await arrived(atOnceMax + 1);
  for (const method of ['HEAD', 'GET']) send('flooder', method, '/read');
  await arrived(atOnceMax + 3);
  for (const [userId, method, path] of [
    ['flooder', 'DELETE', '/change'],
    ['flooder', 'GET', '/work'],
    ['another', 'GET', '/read'],
  ] as const)
    send(userId, method, path);
  await served(atOnceMax + 3);

  // Whoever leaves makes room; one that left while it waited takes none.
  waiting.destroy();
  await waitFor(() => came[atOnceMax]!.raw.socket.destroyed, { description: 'it to be gone' });
  leaving!.destroy();
  await served(atOnceMax + 4);
  // One whose credential ended while it waited is refused.
  ended.add('flooder');
  held.at(-1)!.send('read');
  await waitFor(() => statuses.length === 2, { description: 'an answer and a refusal' });
  expect([statuses.sort(), held.length]).toEqual([[200, 500], atOnceMax + 4]);
});

test('reads that wait for something themselves hold up the others of their user only while the process is busy', async () => {
  await using app = await listen(20);
  let isBusy = true;
  const work = (): void => void (isBusy && setImmediate(work));
  work();
  for (let count = 0; count < 3 * atOnceMax; count += 1) app.send('dashboard', 'GET', '/read');
  await app.arrived(3 * atOnceMax);
  using watch = startStopwatch();
  await waitFor(() => watch.ms > 100, { description: 'five checks' });
  expect(app.held).toHaveLength(atOnceMax);
  isBusy = false;
  await app.served(3 * atOnceMax);
});
