import type { Socket } from 'node:net';
import { Agent, ping, WebSocket } from 'undici';
import { pingPeer } from '#shared/ping-peer.ts';
import { frameBytesMax } from '../bytes/sse.ts';
import { badFieldValue, fieldValue } from './http1/field-value.ts';
import { type ForwardProxy, undiciConnector } from './tls.ts';
import type { SocketHandler, UpstreamSocket } from './upstream.ts';

type WebSocketOptions = {
  url: string;
  /** Sent as a bearer token; undefined: none is sent. */
  apiKey: string | undefined;
  /** How long the connection, and then the upgrade, may take, in milliseconds each. */
  connectTimeoutMs: number;
  /** On the way to servers that speak TLS. */
  proxy: ForwardProxy | undefined;
};

/** An upstream that does not finish the closing handshake is cut off after this, in milliseconds, like a client. */
const closeTimeoutMs = 5_000;

/** How often an upstream is pinged, in milliseconds: one that says nothing until the next ping, not even its answer to it, is cut off. */
const pingMs = 30_000;

/** The address of a WebSocket below an HTTP base URL. */
export const socketUrl = (base: URL, path: string): string =>
  `${base.protocol === 'https:' ? 'wss' : 'ws'}://${base.host}${path}`;

/** Opens a WebSocket to an upstream. Redirects are not followed. Never throws. */
export function openWebSocket(options: WebSocketOptions, handler: SocketHandler): UpstreamSocket {
  // The WebSocket would throw, and quote it.
  if (!fieldValue.test(options.apiKey ?? '')) return unopened(badFieldValue, handler);
  const connect = undiciConnector(options.proxy, options.connectTimeoutMs);
  // undici's WebSocket can only be ended by its handshake, and its dispatcher lets go of a connection that was upgraded.
  let connection: Socket | null = null;
  let cutOff: NodeJS.Timeout | undefined;
  let stopPinging = () => {};
  let isSilent = false;
  const dispatcher = new Agent({
    connect: (target, callback) =>
      connect(target, (...connected) => {
        connection = connected[1];
        callback(...connected);
      }),
    headersTimeout: options.connectTimeoutMs,
    webSocket: { maxPayloadSize: frameBytesMax },
  });
  let over = false;
  const end = (): boolean => {
    if (over) return false;
    over = true;
    stopPinging();
    return true;
  };
  const socket = new WebSocket(options.url, {
    headers: options.apiKey === undefined ? {} : { authorization: `Bearer ${options.apiKey}` },
    dispatcher,
  });
  socket.addEventListener('open', () => {
    if (over) return;
    let bytesRead = 0;
    stopPinging = pingPeer(pingMs, {
      hasSpoken() {
        const hasSpoken = connection!.bytesRead !== bytesRead;
        bytesRead = connection!.bytesRead;
        return hasSpoken;
      },
      ping: () => ping(socket),
      onSilent() {
        isSilent = true;
        connection!.destroy();
      },
    });
    handler.onOpen();
  });
  socket.addEventListener('message', ({ data }) => {
    if (!over && typeof data === 'string') handler.onText(data);
  });
  socket.addEventListener('close', ({ code, reason }) => {
    clearTimeout(cutOff);
    void dispatcher.destroy();
    const brokeOff = isSilent ? `it has answered no ping for ${pingMs / 1_000} s` : 'the connection broke off';
    if (end()) handler.onClose(code === 1006 ? brokeOff : `closed with ${code} ${reason}`);
  });
  return {
    send(text) {
      if (!over) socket.send(text);
    },
    get waitingBytes() {
      return socket.bufferedAmount;
    },
    close() {
      if (!end()) return;
      socket.close(1000);
      cutOff = setTimeout(() => connection?.destroy(), closeTimeoutMs).unref();
    },
  };
}

/** A socket that cannot be opened: its handler is told so, unless it is closed at once. */
function unopened(reason: string, handler: SocketHandler): UpstreamSocket {
  const telling = setImmediate(() => handler.onClose(reason));
  return { send() {}, waitingBytes: 0, close: () => clearImmediate(telling) };
}
