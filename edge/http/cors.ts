import cors from '@fastify/cors';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { endpointMethods, exposedHeaders } from './headers.ts';

/**
 * Lets pages of all origins read an answer (openai-contract.md section 1). Answers to POST, which no cache keeps for others, get the
 * headers only when a page asked: most of them go to callers of models, which are not pages.
 */
export function allowAllOrigins({ raw }: FastifyRequest, reply: FastifyReply): void {
  if (raw.method === 'POST' && raw.headers.origin === undefined) return;
  reply.header('access-control-allow-origin', '*').header('access-control-expose-headers', exposedHeaders);
}

/**
 * Answers preflight requests: a page with a key or a token may do what its bearer may, and whatever relies on a cookie refuses foreign
 * pages itself. Any other OPTIONS request gets the same answer: a refusal would be plain text. Not with 204, the default: the plugin also sends
 * a Content-Length, which that must not have (RFC 9110 section 8.6).
 */
export async function answerPreflights(app: FastifyInstance): Promise<void> {
  const methods = [...endpointMethods];
  await app.register(cors, {
    origin: '*',
    methods,
    exposedHeaders,
    maxAge: 600,
    strictPreflight: false,
    optionsSuccessStatus: 200,
  });
}
