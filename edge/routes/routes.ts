import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type {
  FastifyBaseLogger,
  FastifyInstance,
  FastifyRequest,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
} from 'fastify';
import { Type } from 'typebox';
import { invalidRequest } from '#shared/errors.ts';
import type { EdgeDeps } from '../deps.ts';
import type { EdgeMetrics } from '../http/metrics.ts';

/** What routes are given. */
export type RouteDeps = EdgeDeps & { metrics: EdgeMetrics };

export type EdgeApp = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression<RawServerDefault>,
  RawReplyDefaultExpression<RawServerDefault>,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;

/** Registers the routes of one path, or of a family of paths. */
export type Routes = (app: EdgeApp, deps: RouteDeps) => void;

/** Query parameters of every list (decisions.md, Common). */
export const pageQuerySchema = {
  page: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'Counted from 1, the default.' })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, description: 'Of a page; 20 by default.' })),
};

/** The name in a path that ends in one: names contain slashes, raw or as %2F (openai-contract.md section 1). */
export const nameInPath = (request: FastifyRequest): string => (request.params as { '*': string })['*'];

/** The Idempotency-Key of a request; empty when there is none. */
export function idempotencyKey(request: FastifyRequest): string {
  const value = request.headers['idempotency-key'];
  if (value === undefined) return '';
  if (typeof value !== 'string' || value.length > 255 || !/^[\x21-\x7e]+$/.test(value)) {
    throw invalidRequest('Idempotency-Key', 'Idempotency-Key must be 1 to 255 visible ASCII characters.');
  }
  return value;
}
