import type { FastifyRequest } from 'fastify';
import type { CallerConstraints } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { statusOf } from '#shared/error-table.ts';
import { ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';
import { prefixedId } from '#shared/ids.ts';
import { overloaded } from '../guards/load-shedder.ts';
import { logFailure, toGatewayError } from '../http/errors.ts';
import { errorBody } from '../openai/errors.ts';
import type { AdmittedSession } from './session.ts';

/** The part of `ws`'s WebSocket that is used here. */
export type WebSocketLike = {
  on(event: 'message', listener: (data: Buffer, isBinary: boolean) => void): unknown;
  /** `error`: it could not read a message, and is closing with the code that says so. */
  on(event: 'pong' | 'close' | 'error', listener: () => void): unknown;
  send(text: string, sent: (error?: Error) => void): void;
  ping(): void;
  close(code: number, reason: string): void;
  terminate(): void;
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
  /** Sets how many bytes of messages are held, each from its arrival until it has been dealt with; false when there is no room. */
  hold(bytes: number): boolean;
};

/** A socket that has not answered a ping by the time of the next one is gone. */
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
  const closed = Promise.withResolvers<void>();
  let isAlive = true;
  let isClosing = false;

  const awaitClose = (): void => {
    isClosing = true;
    cutOff = setTimeout(() => socket.terminate(), closeTimeoutMs);
    session.abort();
  };
  const close = (code: number, reason: string): void => {
    if (isClosing) return;
    awaitClose();
    socket.close(code, reason.slice(0, 123));
  };
  const send = (json: string): Promise<void> => new Promise((resolve) => socket.send(json, () => resolve()));
  /** Tells the client why, and closes. */
  const end = (error: GatewayError, code: number): void => {
    if (isClosing) return;
    const body = errorBody(error).error;
    void send(JSON.stringify({ type: 'error', event_id: prefixedId('event_'), error: { ...body, event_id: null } }));
    close(code, `${body.type}.${body.code ?? 'error'}`);
  };

  /** Bytes since the last message ended: a client may leave the next one unfinished for as long as it answers pings. */
  let arriving = 0;
  const hold = (): void => {
    if (isClosing || options.hold(arriving + session.events.heldLength)) return;
    end(overloaded, closeCodes.tryAgain);
    socket.pause();
  };
  options.request.raw.socket.on('data', (bytes) => {
    arriving += bytes.length;
    hold();
  });
  session.events.onDone = hold;

  let cutOff: NodeJS.Timeout | undefined;
  const pings = setInterval(() => {
    if (!isAlive) socket.terminate();
    isAlive = false;
    socket.ping();
  }, pingMs);
  const lastMoment = setTimeout(() => end(sessionExpired(), closeCodes.goingAway), sessionMsMax);
  const stopListening = options.onCredentialEnded(
    (refusal) => end(refusal, closeCodes.policy),
    (constraints) => session.events.constrain(constraints),
  );

  socket.on('pong', () => {
    isAlive = true;
  });
  // Its client may still be sending: cut off at once, it would get a reset connection instead of the code.
  socket.on('error', () => {
    if (!isClosing) awaitClose();
  });
  socket.on('message', (data, isBinary) => {
    isAlive = true;
    arriving = 0;
    if (isClosing) return;
    if (isBinary) end(textOnly(), closeCodes.policy);
    else if (!session.events.push(data.toString('utf8'))) socket.pause();
  });
  session.events.onRoom = () => {
    if (!isClosing) socket.resume();
  };
  socket.on('close', () => {
    isClosing = true;
    options.hold(0);
    session.events.end();
    session.abort();
    closed.resolve();
  });

  try {
    for await (const { message } of session.responses) {
      if (isClosing) break;
      // A client that does not read holds up only its own session.
      if (message.case === 'eventJson') await send(message.value);
      else if (message.case === 'close') close(message.value.code, message.value.reason);
    }
    close(closeCodes.normal, '');
  } catch (thrown) {
    const error = toGatewayError(thrown);
    if (!isClosing) logFailure(error, statusOf(error), options.request);
    end(error, closeCodeOf(error));
  }
  await closed.promise;
  clearInterval(pings);
  for (const timer of [lastMoment, cutOff]) clearTimeout(timer);
  stopListening();
}

/** Clients decide by the code whether to reconnect. */
function closeCodeOf(error: GatewayError): number {
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
