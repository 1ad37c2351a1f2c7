import type { RequestListener } from 'node:http';
import type { Socket } from 'node:net';

/** How many requests of a connection may wait: each takes 3.4 KB, and one packet of 64 KiB may bring some two thousand. */
const waitingMax = 100;

/**
 * Serves the requests of a connection one after the other, each once the answer before it has left the process; one that brings too many is
 * closed (RFC 9112 section 9.3.2 lets its client repeat them). Node would have all served at once, and would hold every answer for a client
 * that reads none.
 */
export function oneAtATime(handler: RequestListener): RequestListener {
  const waiting = new WeakMap<Socket, number>();
  return (request, response) => {
    // Node gives a response its socket when the one before has been sent.
    if (response.socket !== null) {
      handler(request, response);
      return;
    }
    const { socket } = request;
    const count = (waiting.get(socket) ?? 0) + 1;
    waiting.set(socket, count);
    if (count > waitingMax) {
      socket.destroy();
      return;
    }
    response.once('socket', () => {
      waiting.set(socket, waiting.get(socket)! - 1);
      handler(request, response);
    });
  };
}
