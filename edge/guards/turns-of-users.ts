import type { FastifyInstance, FastifyRequest } from 'fastify';
import { cancelled } from '#shared/errors.ts';
import { turnsByName } from '#shared/turns-by-name.ts';
import { goneSignal } from '../http/client-gone.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Lets the user's next request in; undefined while this one waits, or when it takes no turn. */
    endTurn: (() => void) | undefined;
  }
}

/** How many reads, and how many changes, of one user are served at a time. */
export const atOnceMax = 8;

/**
 * A request that is not answered by the end of such a time, in milliseconds, during which the event loop was less busy than this, waits for
 * something itself, such as a database that is away, and keeps others waiting no longer.
 */
const checkMs = 100;
const busyMin = 0.8;

/**
 * Serves the requests of one user a few at a time, except those that start work, which rate limits count: a turn of the event loop serves
 * all that have come, and every call waits for several turns. To be installed before access, which then checks who has waited again.
 */
export function takeTurns(app: FastifyInstance, everyMs = checkMs): void {
  const turns = turnsByName(atOnceMax);
  app.decorateRequest('endTurn', undefined);
  app.addHook('preValidation', (request, reply, done) => {
    const { principal, rule } = request;
    if (principal === null || rule!.startsWork) {
      done();
      return;
    }
    const gone = goneSignal(request.raw.socket);
    const served = () =>
      new Promise<void>((resolve) => {
        let before = performance.eventLoopUtilization();
        const timer = setInterval(() => {
          const now = performance.eventLoopUtilization();
          if (performance.eventLoopUtilization(now, before).utilization < busyMin) endTurn();
          before = now;
        }, everyMs);
        const endTurn = (): void => {
          clearInterval(timer);
          resolve();
        };
        request.endTurn = endTurn;
        // If the client leaves meanwhile, nothing may be sent.
        reply.raw.once('close', endTurn);
        done();
      });
    turns
      .run(turnsOf(request, principal.userId), gone, served)
      .catch((thrown) => done(gone.aborted ? cancelled(thrown) : thrown));
  });
  // Not when it was delivered: slow readers of large answers would hold up what they ask for beside them.
  app.addHook('onSend', (request, _reply, _payload, done) => {
    request.endTurn?.();
    done();
  });
}

/** Reads do not wait for changes, some of which wait for every edge to know of them. */
const turnsOf = ({ method }: FastifyRequest, userId: string): string =>
  `${userId} ${method === 'GET' || method === 'HEAD' ? 'reads' : 'changes'}`;
