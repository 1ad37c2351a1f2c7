import { fileURLToPath } from 'node:url';
import type { Contender } from '../contender.ts';

/** The limit of this stack: its own listener and upstream client, and nothing between them. */
export const fastifyUndici: Contender = {
  name: 'fastify',
  title: 'Fastify + undici dispatch',
  duties: 'none',
  prepare: async ({ upstreamUrl, port }) => ({
    command: [
      process.execPath,
      fileURLToPath(new URL('fastify-undici-server.ts', import.meta.url)),
      upstreamUrl,
      String(port),
    ],
    env: {},
    headers: {},
    token: 'none',
  }),
};
