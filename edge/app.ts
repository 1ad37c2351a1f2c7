import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type {
  FastifyBaseLogger,
  FastifyInstance,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
} from 'fastify';
import type { EdgeDeps } from './deps.ts';
import type { BodyRoom } from './guards/body-room.ts';
import type { ResultRoom } from './guards/result-room.ts';
import type { EdgeMetrics } from './http/metrics.ts';

/** What each group of routes is given. */
export type RouteDeps = EdgeDeps & {
  metrics: EdgeMetrics;
  resultRoom: ResultRoom;
  bodyRoom: BodyRoom;
};

export type EdgeApp = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression<RawServerDefault>,
  RawReplyDefaultExpression<RawServerDefault>,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;

/** Registers the routes of one path, or of a family of paths. */
export type Routes = (app: EdgeApp, deps: RouteDeps) => void;
