import cors from '@fastify/cors';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { endpointMethods, exposedHeaders } from './headers.ts';

/**
 * Lets pages of all origins read an answer (openai-contract.md section 1). The answers to POST, which no cache keeps for somebody else,
 * say so to pages alone: most of them are a model's, to callers who are none.
 */
export function allowAllOrigins({ raw }: FastifyRequest, reply: FastifyReply): void {
  if (raw.method === 'POST' && raw.headers.origin === undefined) return;
  reply.header('access-control-allow-origin', '*').header('access-control-expose-headers', exposedHeaders);
}

/**
 * Answers browsers that ask before they send: a page with a key or a token may do what its bearer may, and what goes by a cookie refuses
 * foreign pages by itself. Whoever asks for OPTIONS without being one is answered alike: the refusal would be plain text.
 */
export async function answerPreflights(app: FastifyInstance): Promise<void> {
  const methods = [...endpointMethods];
  await app.register(cors, { origin: '*', methods, exposedHeaders, maxAge: 600, strictPreflight: false });
}
