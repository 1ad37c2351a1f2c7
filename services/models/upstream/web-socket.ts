import { Agent, WebSocket } from 'undici';
import type { SocketHandler, UpstreamSocket } from './upstream.ts';

export type WebSocketOptions = {
  url: string;
  /** Sent as a bearer token; undefined: none is sent. */
  apiKey: string | undefined;
  connect: { connectTimeoutMs: number };
};

/** The address of a WebSocket below an HTTP base URL. */
export const socketUrl = (base: URL, path: string): string =>
  `${base.protocol === 'https:' ? 'wss' : 'ws'}://${base.host}${path}`;

/** Opens a WebSocket to an upstream. Redirects are not followed. */
export function openWebSocket(options: WebSocketOptions, handler: SocketHandler): UpstreamSocket {
  const dispatcher = new Agent({
    connect: { timeout: options.connect.connectTimeoutMs },
    headersTimeout: options.connect.connectTimeoutMs,
  });
  let over = false;
  const end = (): boolean => {
    if (over) return false;
    over = true;
    return true;
  };
  const socket = new WebSocket(options.url, {
    headers: options.apiKey === undefined ? {} : { authorization: `Bearer ${options.apiKey}` },
    dispatcher,
  });
  let failure = 'the connection was not accepted';
  socket.addEventListener('open', () => {
    if (!over) handler.onOpen();
  });
  socket.addEventListener('message', ({ data }) => {
    if (!over && typeof data === 'string') handler.onText(data);
  });
  socket.addEventListener('error', (event) => {
    failure = (event as { message?: string }).message || failure;
  });
  socket.addEventListener('close', ({ code, reason }) => {
    void dispatcher.destroy();
    if (end()) handler.onClose(code === 1006 ? failure : `closed with ${code} ${reason}`);
  });
  return {
    send(text) {
      if (!over) socket.send(text);
    },
    get waitingBytes() {
      return socket.bufferedAmount;
    },
    close() {
      if (end()) socket.close(1000);
    },
  };
}
