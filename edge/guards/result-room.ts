import { finished } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import { statusOf } from '#shared/error-table.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { countedBytes, HeldBytes } from '#shared/held-bytes.ts';
import { toGatewayError } from '../http/errors.ts';
import type { EdgeMetrics } from '../http/metrics.ts';
import { errorBody, retryHeaders } from '../openai/errors.ts';

/** The share that one user may take. */
const userShare = 1 / 4;

/**
 * The memory that large job results, and other large answers to GET requests, may take while they are read and delivered; the short request
 * for one does not show how much that is. A result that would be the only one always has room, however large; the only one of its user has
 * room if the memory as a whole does.
 */
export class ResultRoom {
  readonly #bytesMax: number;
  readonly #held = new HeldBytes();

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /**
   * Takes room for a result of this many bytes; returns a function that gives it back. @throws GatewayError OVERLOADED when there is none.
   */
  take(userId: string, bytes: number): () => void {
    const held = this.#held;
    const ofUser = held.of(userId);
    const isTooMuch = held.total > 0 && held.total + bytes > this.#bytesMax;
    if (isTooMuch || (ofUser > 0 && ofUser + bytes > this.#bytesMax * userShare)) {
      throw gatewayError(ErrorReason.OVERLOADED, 'Too many large answers are being read at once. Try again shortly.');
    }
    held.add(userId, bytes);
    return () => held.add(userId, -bytes);
  }
}

/**
 * Refuses large answers to GET requests for which there is no room: clients that do not read theirs could otherwise have any number of them
 * held. An answer to anything else tells of something done, and is short. To be installed in front of hooks that look at the status.
 */
export function refuseLargeAnswers(
  app: FastifyInstance,
  { resultRoom, metrics }: { resultRoom: ResultRoom; metrics: EdgeMetrics },
): void {
  app.addHook('onSend', (request, reply, payload, done) => {
    const isWhole = typeof payload === 'string' || Buffer.isBuffer(payload);
    const bytes = request.method === 'GET' && isWhole ? countedBytes(Buffer.byteLength(payload)) : 0;
    if (bytes === 0 || request.principal === null) {
      done(null, payload);
      return;
    }
    let answer: string | Buffer = payload as string | Buffer;
    try {
      finished(reply.raw, resultRoom.take(request.principal.userId, bytes));
    } catch (thrown) {
      const refusal = toGatewayError(thrown);
      metrics.shed('memory');
      reply.code(statusOf(refusal)).headers(retryHeaders(refusal)).type('application/json; charset=utf-8');
      reply.removeHeader('content-disposition');
      answer = JSON.stringify(errorBody(refusal));
    }
    done(null, answer);
  });
}
