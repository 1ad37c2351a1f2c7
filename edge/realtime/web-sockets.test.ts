import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import fastify from 'fastify';
import { expect, test } from 'vitest';
import { WebSocket } from 'ws';
import type { EdgeApp } from '../app.ts';
import { installWebSockets } from './web-sockets.ts';

test('a session that is still being admitted when the server goes away is told so as well, and holds nothing up', async () => {
  const app: EdgeApp = fastify();
  const asked = Promise.withResolvers<void>();
  const admitted = Promise.withResolvers<void>();
  await app.register(async (realtime: EdgeApp) => {
    await installWebSockets(realtime);
    realtime.route({
      method: 'GET',
      url: '/v1/realtime',
      config: { access: { surface: 'public' } },
      preHandler: async () => {
        asked.resolve();
        await admitted.promise;
      },
      handler: (_request, reply) => reply.code(426).send(),
      wsHandler() {},
    });
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const client = new WebSocket(`ws://127.0.0.1:${port}/v1/realtime`);
  const closed = once(client, 'close');
  await asked.promise;
  const { close } = app.server;
  const serverCloses = new Promise<void>((resolve) => {
    app.server.close = (...call) => {
      resolve();
      return close.apply(app.server, call);
    };
  });
  const ended = app.close();
  await serverCloses;
  admitted.resolve();
  expect((await closed)[0]).toBe(1001);
  await ended;
}, 10_000);
