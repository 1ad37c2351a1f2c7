import type { FastifyInstance, FastifyRequest } from 'fastify';
import { countedBytesMin, HeldBytes } from '#shared/held-bytes.ts';
import { clientAddress } from '../client-address.ts';
import { hasBody } from '../http/bodies.ts';
import type { EdgeMetrics } from '../http/metrics.ts';
import { overloaded } from './load-shedder.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Gives back what this request's body holds of the memory for bodies; undefined when it is not counted, or no longer needed. */
    giveBodyBack: (() => void) | undefined;
  }
}

/** The part of the memory for bodies that those of requests without a credential, such as payment events, may take again. */
const strangersPart = 1 / 8;

/** The memory for bodies: at most `bytesMax`, shared fairly between users, or between the addresses of strangers. */
export class BodyRoom {
  readonly #bytesMax: number;
  readonly #held = new HeldBytes();

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Takes room for a body of this many bytes; false when there is none. `giveBack` follows once the body is no longer needed. */
  take(whose: string, bytes: number): boolean {
    if (!this.#held.hasRoom(whose, bytes, this.#bytesMax)) return false;
    this.#held.add(whose, bytes);
    return true;
  }

  giveBack(whose: string, bytes: number): void {
    this.#held.add(whose, -bytes);
  }
}

/** The memory for bodies, and that for bodies of requests without a credential: nobody may leave users without room so. */
type BodyRooms = { users: BodyRoom; strangers: BodyRoom };

export const bodyRooms = (bytesMax: number): BodyRooms => ({
  users: new BodyRoom(bytesMax),
  strangers: new BodyRoom(bytesMax * strangersPart),
});

/**
 * Refuses bodies for which there is no room, before they are read but after their owner is known, so that requests refused earlier take no
 * room.
 */
export function shedBodies(app: FastifyInstance, { rooms, metrics }: { rooms: BodyRooms; metrics: EdgeMetrics }): void {
  app.decorateRequest('giveBodyBack', undefined);
  app.addHook('onRequest', (request, reply, done) => {
    const bytes = bytesInMemory(request);
    // If the client left while its key was looked up, no event would report its end.
    if (bytes === 0 || request.raw.socket.destroyed) {
      done();
      return;
    }
    const { principal } = request;
    const room = principal === null ? rooms.strangers : rooms.users;
    const whose = principal?.userId ?? clientAddress(request);
    if (!room.take(whose, bytes)) {
      metrics.shed('memory');
      done(overloaded);
      return;
    }
    request.giveBodyBack = () => {
      request.giveBodyBack = undefined;
      room.giveBack(whose, bytes);
    };
    reply.raw.once('close', () => request.giveBodyBack?.());
    done();
  });
  // A refused request may stay open for the rest of its body, which is discarded.
  app.addHook('onSend', (request, _reply, _payload, done) => {
    request.giveBodyBack?.();
    done();
  });
}

/** How much memory the body will take, if that is worth counting: the maximum when the head does not say. Forms go to files. */
function bytesInMemory(request: FastifyRequest): number {
  const { rule, raw } = request;
  const { 'content-length': announced, 'content-type': type } = raw.headers;
  if (rule === undefined || !hasBody(raw) || type?.startsWith('multipart/')) return 0;
  // Before the limit is read: for each reading Fastify builds an object of all options.
  if (Number(announced) < countedBytesMin) return 0;
  const bytesMax = request.routeOptions.bodyLimit!;
  const bytes = Math.min(Number(announced ?? bytesMax), bytesMax);
  return bytes < countedBytesMin ? 0 : bytes;
}
