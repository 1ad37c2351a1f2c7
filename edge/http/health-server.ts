import fastify, { type FastifyInstance } from 'fastify';
import type { Logger } from '#shared/logger.ts';
import { installErrors } from './errors.ts';
import { type Readiness, registerHealth } from './health.ts';
import { methodNotAllowed } from './method-not-allowed.ts';
import { beginAnswer, ownAnswers, serverOfOwnAnswers } from './own-answers.ts';

/** Shows health and metrics of a process without an edge, and refuses everything else as an edge does. */
export function createHealthServer(deps: {
  readiness: Readiness;
  metricsText: () => Promise<string>;
  logger: Logger;
}): FastifyInstance {
  const app: FastifyInstance = fastify({
    ...ownAnswers(deps),
    serverFactory: (handler) => serverOfOwnAnswers({}, handler),
  });
  app.addHook('onRequest', (request, reply, done) => done(beginAnswer(request, reply)));
  // Without a parser no body is read: the answer that there is nothing to send it to comes first.
  app.removeAllContentTypeParsers();
  installErrors(app);
  // Its answers are simple, so no serializer needs to be compiled for them.
  app.setSerializerCompiler(() => JSON.stringify);
  const paths = methodNotAllowed(app);
  registerHealth(app, deps.readiness, deps.metricsText);
  paths.close(app);
  return app;
}
