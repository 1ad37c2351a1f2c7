import {
  createServer,
  IncomingMessage,
  type RequestListener,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http';
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
import { noStore } from './no-store.ts';
import { oneAtATime } from './pipelining.ts';
import { endUnlessRead } from './slow-clients.ts';
import { answerUnparsable, refuseConnect, refuseExpectation, resetWhatIsCutOff } from './socket-errors.ts';

/*
 * What Fastify and Node would refuse in shapes of their own gets an answer in the documented shape. A server needs all three of these, and
 * `installErrors` for the rest.
 */

/** Options of `fastify`. `onRefused` is told of what the router refuses, for which no hook runs, before it is answered. */
export function ownAnswers(
  { logger: parent }: { logger: Logger },
  onRefused: (refusal: GatewayError, request: FastifyRequest, reply: FastifyReply) => void = () => {},
) {
  // A logger for each request costs more than all checks; log lines name the request themselves.
  const logger: FastifyBaseLogger = Object.assign(Object.create(parent), { child: () => logger });
  return {
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: newRequestId,
    requestIdHeader: false as const,
    clientErrorHandler: answerUnparsable,
    frameworkErrors: (error: FastifyError, request: FastifyRequest, reply: FastifyReply): void => {
      const refusal = beginAnswer(request, reply) ?? toGatewayError(error);
      onRefused(refusal, request, reply);
      sendError(refusal, request, reply);
    },
  };
}

/** Makes the server, for the option `serverFactory`. */
export const serverOfOwnAnswers = (options: ServerOptions, handler: RequestListener): Server =>
  // A request without a Host is refused by `beginAnswer`.
  createServer({ requireHostHeader: false, ...options }, oneAtATime(handler))
    .on('checkContinue', askWhenRead)
    .on('checkExpectation', oneAtATime(refuseExpectation))
    .on('connect', refuseConnect)
    .on('timeout', endUnlessRead)
    .on('connection', resetWhatIsCutOff);

/**
 * Asks a client that waits for it for its body only once somebody reads that; Node would ask at once. What is refused before gets its answer
 * instead, and its connection ends, since nobody can know whether the body still follows (RFC 9110 section 10.1.1).
 */
function askWhenRead(this: Server, request: IncomingMessage, response: ServerResponse): void {
  const { shouldKeepAlive } = response;
  response.shouldKeepAlive = false;
  request.read = (size) => {
    request.read = IncomingMessage.prototype.read;
    if (!response.headersSent) {
      response.shouldKeepAlive = shouldKeepAlive;
      response.writeContinue();
    }
    return request.read(size);
  };
  this.emit('request', request, response);
}

/**
 * The first hook: gives the answer its request id, and returns what is wrong with the request's head, if anything is. No cache may keep an
 * answer whose route says nothing else: some caches look neither at Authorization nor at Accept, and most keep a 404. They keep no POST's.
 */
export function beginAnswer(request: FastifyRequest, reply: FastifyReply): GatewayError | undefined {
  reply.header('x-request-id', request.id);
  if (request.method !== 'POST') noStore(reply);
  const problem = headProblem(request.raw);
  if (problem === null) return undefined;
  // It is uncertain where its body ends, and so where the next request begins.
  reply.header('connection', 'close');
  return problem;
}
