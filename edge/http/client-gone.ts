import type { Socket } from 'node:net';

const gone = Symbol('aborted when the connection closes');
type ClientSocket = Socket & { [gone]?: AbortSignal };

/**
 * Aborts once a request's client has left. One signal serves all requests of a connection: making one costs as much as authenticating a
 * key.
 */
export function goneSignal(socket: ClientSocket): AbortSignal {
  let signal = socket[gone];
  if (signal === undefined) {
    const controller = new AbortController();
    signal = controller.signal;
    socket[gone] = signal;
    if (socket.destroyed) controller.abort();
    else socket.once('close', () => controller.abort());
  }
  return signal;
}
