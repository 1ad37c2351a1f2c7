/** As much of the package as tests use; it comes without types. */
declare module 'ws' {
  import type { EventEmitter } from 'node:events';
  import type { ClientRequest, IncomingMessage, Server } from 'node:http';

  export class WebSocket extends EventEmitter {
    constructor(url: string, protocols?: string | string[], options?: { headers?: Record<string, string> });
    readonly protocol: string;
    readonly readyState: number;
    send(data: string | Buffer, options?: { fin?: boolean; binary?: boolean }, sent?: (error?: Error) => void): void;
    ping(): void;
    close(code?: number, reason?: string): void;
    /** Stops reading from the network. */
    pause(): void;
    resume(): void;
    terminate(): void;
    on(event: 'open' | 'ping' | 'pong', listener: () => void): this;
    on(event: 'upgrade', listener: (response: IncomingMessage) => void): this;
    on(event: 'message', listener: (data: Buffer, isBinary: boolean) => void): this;
    on(event: 'close', listener: (code: number, reason: Buffer) => void): this;
    on(event: 'error', listener: (error: Error) => void): this;
    on(event: 'unexpected-response', listener: (request: ClientRequest, response: IncomingMessage) => void): this;
  }

  export class WebSocketServer extends EventEmitter {
    constructor(options: { server: Server });
    on(event: 'connection', listener: (socket: WebSocket, request: IncomingMessage) => void): this;
    close(): void;
    readonly clients: Set<WebSocket>;
  }
}
