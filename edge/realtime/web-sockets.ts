import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import webSockets from '@fastify/websocket';
import type { EdgeApp } from '../app.ts';
import { refuseOnSocket, responseOn } from '../http/socket-errors.ts';
import { chosenProtocol } from './credential.ts';
import type { AdmittedSession } from './session.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The session of a request that is about to become a WebSocket; null for all others. */
    realtime: AdmittedSession | null;
  }
}

/** 15 MiB of audio in base64, and the JSON around it (openai-contract.md section 5). */
const messageBytesMax = 21 * 1024 * 1024;
/** The most fragments in which a message may come, and pieces in which it may wait in the network: more are an attack. */
const fragmentsMax = 1_024;
const piecesMax = 32 * 1024;
/** How long clients have to close when the server goes away, in milliseconds. */
const leaveMs = 5_000;

/** `readyState` of a WebSocket on which neither side has begun to close. */
const openState = 1;

const realtimePath = /^\/(api\/)?v1\/realtime(\?|$)/;

/** Whether a request asks for a WebSocket where there is one (RFC 6455 section 4.1). */
export const isRealtimeUpgrade = (message: IncomingMessage): boolean =>
  message.method === 'GET' &&
  message.headers.upgrade?.toLowerCase() === 'websocket' &&
  realtimePath.test(message.url ?? '');

/**
 * Whether a request's connection can become a WebSocket. While an earlier request is being answered it cannot: the request is answered in
 * its turn, without an upgrade (RFC 9110 section 7.8).
 */
export const mayUpgrade = (message: IncomingMessage): boolean =>
  isRealtimeUpgrade(message) && responseOn(message.socket) === null;

const sayGoodbye = (client: { close(code: number, reason: string): void; terminate(): void }): void => {
  client.close(1001, 'the server is going away');
  setTimeout(() => client.terminate(), leaveMs).unref();
};

/** Lets routes of this part of the app become WebSockets; other routes do not run its hooks. */
export async function installWebSockets(app: EdgeApp): Promise<void> {
  app.decorateRequest('realtime', null);
  await app.register(webSockets, {
    options: {
      maxPayload: messageBytesMax,
      maxFragments: fragmentsMax,
      maxBufferedChunks: piecesMax,
      handleProtocols: chosenProtocol,
    },
    // A socket that cannot read a message is closing already, and its session hears of that. One that is open was left by its handler.
    errorHandler: (_error: Error, socket: { readyState: number; terminate(): void }) => {
      if (socket.readyState === openState) socket.terminate();
    },
    preClose(done: () => void) {
      for (const client of app.websocketServer.clients) sayGoodbye(client);
      // A session that was still being admitted would be waited for until its client leaves.
      app.websocketServer.on('connection', sayGoodbye);
      done();
    },
  });
  app.websocketServer.on('wsClientError', (error: Error, socket: Socket) =>
    // The version is for clients that speak another one (RFC 6455 section 4.4).
    refuseOnSocket(socket, '400 Bad Request', `The upgrade request is not valid: ${error.message}.`, {
      'sec-websocket-version': '13',
    }),
  );
  // `ws` writes the answer to an upgrade itself, without the headers of the reply.
  const requestIds = new WeakMap<IncomingMessage, string>();
  app.addHook('onRequest', (request, _reply, done) => {
    if (isRealtimeUpgrade(request.raw)) requestIds.set(request.raw, request.id);
    done();
  });
  app.websocketServer.on('headers', (headers: string[], message: IncomingMessage) => {
    headers.push(`x-request-id: ${requestIds.get(message)}`);
  });
  // A refused upgrade is followed by no other request (openai-contract.md section 5), and nothing else closes its connection: a request
  // refused this early never reached the plugin.
  app.addHook('onSend', (request, reply, _payload, done) => {
    if (isRealtimeUpgrade(request.raw)) reply.header('connection', 'close');
    done();
  });
  app.addHook('onResponse', (request, _reply, done) => {
    if (isRealtimeUpgrade(request.raw)) request.raw.socket.end();
    done();
  });
}
