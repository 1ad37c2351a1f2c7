import type { FastifyReply } from 'fastify';

/** Keeps an answer, such as one with a secret, out of every cache (RFC 9111 section 5.2.2.5). */
export const noStore = (reply: FastifyReply): FastifyReply => reply.header('cache-control', 'no-store');
