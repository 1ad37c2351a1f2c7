import { createServer, type RequestListener, type Server, type ServerOptions } from 'node:http';
import {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify';
import type { GatewayError } from '#shared/errors.ts';
import type { Logger } from '#shared/logger.ts';
import { sendError, toGatewayError } from './errors.ts';
import { headProblem, newRequestId } from './headers.ts';
import { answerUnparsable, refuseConnect, refuseExpectation } from './socket-errors.ts';

/*
 * What Fastify and Node would refuse in shapes of their own is answered in the documented one. A server needs all three of these, and
 * `installErrors` for the rest.
 */

/** Options of `fastify`. `onRefused` is told what the router refuses, which runs no hook. */
export function ownAnswers(
  { logger: parent }: { logger: Logger },
  onRefused: (refusal: GatewayError) => void = () => {},
) {
  // A logger of its own for each request costs more than all checks; whoever logs names the request.
  const logger: FastifyBaseLogger = Object.assign(Object.create(parent), { child: () => logger });
  return {
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: newRequestId,
    requestIdHeader: false as const,
    clientErrorHandler: answerUnparsable,
    frameworkErrors: (error: FastifyError, request: FastifyRequest, reply: FastifyReply): void => {
      const refusal = toGatewayError(error);
      onRefused(refusal);
      sendError(refusal, request, reply.header('x-request-id', request.id));
    },
  };
}

/** The server of a `serverFactory`. */
export const serverOfOwnAnswers = (options: ServerOptions, handler: RequestListener): Server =>
  // A request without a Host is refused by `beginAnswer`.
  createServer({ requireHostHeader: false, ...options }, handler)
    .on('checkExpectation', refuseExpectation)
    .on('connect', refuseConnect);

/** The first of the hooks: names the answer, and answers what is wrong with the head of its request, if anything is. */
export function beginAnswer(request: FastifyRequest, reply: FastifyReply): GatewayError | undefined {
  reply.header('x-request-id', request.id);
  const problem = headProblem(request.raw);
  if (problem === null) return undefined;
  // Where its body ends, and so where the next request begins, is not certain.
  reply.header('connection', 'close');
  return problem;
}
