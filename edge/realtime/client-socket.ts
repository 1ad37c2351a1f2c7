import type { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { CallerConstraints } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { statusOf } from '#shared/error-table.ts';
import { ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';
import { prefixedId } from '#shared/ids.ts';
import { isHeldByOthers } from '#shared/no-room.ts';
import { pingPeer } from '#shared/ping-peer.ts';
import { overloaded } from '../guards/load-shedder.ts';
import { logFailure, toGatewayError } from '../http/errors.ts';
import { errorBody } from '../openai/errors.ts';
import type { ClientEvents } from './client-events.ts';
import type { Reader } from './reading-turns.ts';
import type { AdmittedSession } from './session.ts';

/** The part of `ws`'s WebSocket that is used here. */
export type WebSocketLike = {
  on(event: 'message', listener: (data: Buffer, isBinary: boolean) => void): unknown;
  /** `error`: it could not read a message, and is closing with the code that says so. */
  on(event: 'close' | 'error', listener: () => void): unknown;
  send(text: string, sent: (error?: Error) => void): void;
  ping(): void;
  close(code: number, reason: string): void;
  terminate(): void;
  readonly isPaused: boolean;
  pause(): void;
  resume(): void;
};

type CarryOptions = {
  request: FastifyRequest;
  /**
   * Calls back, with the refusal, when the credential is no longer served here, or with its new constraints. Returns a function that stops
   * listening.
   */
  onCredentialEnded(
    listener: (refusal: GatewayError) => void,
    constrain: (constraints: CallerConstraints) => void,
  ): () => void;
  /** Whether the credential may have ended without this edge's knowledge: what the client says waits until that is known. */
  isCredentialInDoubt(): boolean;
  /** Sets how many bytes of messages are held, each from its arrival until it has been dealt with; false when there is no room. */
  hold(bytes: number): boolean;
  /** Takes note of bytes that have come; the reader may have to wait for its turn to read more. */
  spend(bytes: number, reader: Reader): void;
};

/** How often the client is pinged, in milliseconds. */
const pingMs = 20_000;
const sessionMsMax = 60 * 60 * 1000;
/** A client that does not finish the closing handshake is cut off after this, in milliseconds. */
const closeTimeoutMs = 5_000;

/** Close codes (openai-contract.md section 5): what is refused for good, what may be tried again, and the regular end. */
const closeCodes = { refused: 4000, policy: 1008, tryAgain: 1013, goingAway: 1001, normal: 1000 } as const;

/** Carries a session over its socket, both ways, until one side ends it. Resolves when the socket is closed. */
export async function carrySession(
  socket: WebSocketLike,
  session: AdmittedSession,
  options: CarryOptions,
): Promise<void> {
  const client = new Client(socket, () => session.abort());
  const stopPinging = cutOffWhenSilent(socket, options.request.raw.socket);
  const lastMoment = setTimeout(() => client.end(sessionExpired(), closeCodes.goingAway), sessionMsMax);
  const stopListening = options.onCredentialEnded(
    (refusal) => client.end(refusal, closeCodes.policy),
    (constraints) => session.events.constrain(constraints),
  );
  session.events.isHeldBack = options.isCredentialInDoubt;
  takeMessages(socket, client, session.events, options);
  try {
    for await (const { message } of session.responses) {
      if (client.isClosing) break;
      // A client that does not read holds up only its own session.
      if (message.case === 'eventJson') await client.send(message.value);
    }
    client.close(closeCodes.normal, '');
  } catch (thrown) {
    const error = toGatewayError(thrown);
    if (!client.isClosing) logFailure(error, statusOf(error), options.request);
    client.end(error, closeCodeOf(error));
  }
  await client.closed;
  clearTimeout(lastMoment);
  stopPinging();
  stopListening();
}

/** The client at the other end of a socket: what it is sent, and how its socket is closed. */
class Client {
  /** Whether either side has begun to close: nothing that comes from now on is taken. */
  isClosing = false;
  /** Resolves when the socket is closed. */
  readonly closed: Promise<void>;
  readonly #socket: WebSocketLike;
  readonly #onClosing: () => void;
  #cutOff: NodeJS.Timeout | undefined;

  constructor(socket: WebSocketLike, onClosing: () => void) {
    this.#socket = socket;
    this.#onClosing = onClosing;
    // Its client may still be sending: cut off at once, it would get a reset connection instead of the code.
    socket.on('error', () => this.#beginClosing());
    this.closed = new Promise((resolve) => {
      socket.on('close', () => {
        this.#beginClosing();
        clearTimeout(this.#cutOff);
        resolve();
      });
    });
  }

  /** Resolves once the client has taken the event, or will not. */
  send(json: string): Promise<void> {
    return new Promise((resolve) => this.#socket.send(json, () => resolve()));
  }

  close(code: number, reason: string): void {
    if (this.isClosing) return;
    this.#beginClosing();
    this.#socket.close(code, reason.slice(0, 123));
  }

  /** Tells the client why, and closes. */
  end(error: GatewayError, code: number): void {
    if (this.isClosing) return;
    const body = errorBody(error).error;
    void this.send(
      JSON.stringify({ type: 'error', event_id: prefixedId('event_'), error: { ...body, event_id: null } }),
    );
    this.close(code, `${body.type}.${body.code ?? 'error'}`);
  }

  #beginClosing(): void {
    if (this.isClosing) return;
    this.isClosing = true;
    this.#cutOff = setTimeout(() => this.#socket.terminate(), closeTimeoutMs);
    this.#onClosing();
  }
}

/** Takes the client's messages as events of its session, as long as there is memory for them. */
function takeMessages(socket: WebSocketLike, client: Client, events: ClientEvents, options: CarryOptions): void {
  /** Bytes since the last message ended: a client may leave the next one unfinished for as long as it answers pings. */
  let arriving = 0;
  const hold = (): void => {
    if (client.isClosing || options.hold(arriving + events.heldLength)) return;
    client.end(overloaded, closeCodes.tryAgain);
    socket.pause();
  };
  const connection = options.request.raw.socket;
  const reader: Reader = {
    pause: () => connection.pause(),
    resume() {
      if (!socket.isPaused) socket.resume();
    },
  };
  connection.on('data', (bytes) => {
    arriving += bytes.length;
    hold();
    options.spend(bytes.length, reader);
  });
  socket.on('message', (data, isBinary) => {
    arriving = 0;
    if (client.isClosing) return;
    if (isBinary) client.end(textOnly(), closeCodes.policy);
    else if (!events.push(data.toString('utf8'))) socket.pause();
  });
  events.onDone = hold;
  events.onRoom = () => {
    if (!client.isClosing) socket.resume();
  };
  socket.on('close', () => {
    options.hold(0);
    events.end();
  });
}

/**
 * Cuts off a client from which nothing has come since the last ping, unless the client is made to wait: then nothing of what it sends is
 * read. Any byte counts, since an answer to a ping cannot overtake an event of 20 MiB. Returns a function that ends this.
 */
function cutOffWhenSilent(socket: WebSocketLike, connection: Pick<Socket, 'on' | 'isPaused'>): () => void {
  let isAlive = true;
  connection.on('data', () => {
    isAlive = true;
  });
  return pingPeer(pingMs, {
    hasSpoken() {
      const hasSpoken = isAlive;
      isAlive = connection.isPaused();
      return hasSpoken;
    },
    ping: () => socket.ping(),
    onSilent: () => socket.terminate(),
  });
}

/** Clients decide by the code whether to reconnect. */
function closeCodeOf(error: GatewayError): number {
  if (isHeldByOthers(error)) return closeCodes.tryAgain;
  switch (error.reason) {
    case ErrorReason.RATE_LIMITED:
    case ErrorReason.TOKEN_RATE_LIMITED:
      return closeCodes.tryAgain;
    case ErrorReason.CANCELLED:
      return closeCodes.policy;
    default:
      return statusOf(error) >= 500 ? closeCodes.tryAgain : closeCodes.refused;
  }
}

const sessionExpired = (): GatewayError =>
  gatewayError(ErrorReason.INVALID_REQUEST, 'Your session hit the maximum duration of 60 minutes.', {
    code: 'session_expired',
  });

const textOnly = (): GatewayError =>
  gatewayError(ErrorReason.INVALID_REQUEST, 'Send events as text; binary messages are not supported.', {
    code: 'invalid_message',
  });
