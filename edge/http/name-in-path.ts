import type { FastifyRequest } from 'fastify';

/** The name in a path that ends in one: names contain slashes, raw or as %2F (openai-contract.md section 1). */
export const nameInPath = (request: FastifyRequest): string => (request.params as { '*': string })['*'];
