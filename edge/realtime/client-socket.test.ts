import { EventEmitter } from 'node:events';
import type { FastifyRequest } from 'fastify';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { TranscribeResponse } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ErrorReason, type GatewayError, type GatewayErrorDetails, gatewayError } from '#shared/errors.ts';
import { silentLogger } from '../../test/support/silent-logger.ts';
import { ClientEvents } from './client-events.ts';
import { carrySession, type WebSocketLike } from './client-socket.ts';
import type { Reader } from './reading-turns.ts';

const minuteMs = 60_000;
const mebibyte = 1024 * 1024;

/** A socket whose peer answers pings and closing for as long as `answers` says; `connection` carries its bytes. */
class FakeSocket extends EventEmitter implements WebSocketLike {
  readonly connection = Object.assign(new EventEmitter(), {
    isPaused: () => this.isPaused || this.isUnread,
    pause: () => {
      this.isUnread = true;
    },
  });
  answers = true;
  isPaused = false;
  /** Whether its connection is not read. */
  isUnread = false;
  said: { error?: { code: string } }[] = [];
  closing: [code: number, reason: string] | undefined;
  ended: [code: number, reason: string] | 'cut off' | undefined;

  send(text: string, sent: () => void): void {
    this.said.push(JSON.parse(text));
    sent();
  }
  ping(): void {
    if (this.answers && !this.isPaused) this.connection.emit('data', Buffer.alloc(6));
  }
  close(code: number, reason: string): void {
    this.closing = [code, reason];
    if (this.answers) this.#end([code, reason]);
  }
  terminate(): void {
    this.#end('cut off');
  }
  pause(): void {
    this.isPaused = true;
  }
  resume(): void {
    this.isPaused = false;
    this.isUnread = false;
  }
  #end(how: NonNullable<FakeSocket['ended']>): void {
    if (this.ended !== undefined) return;
    this.ended = how;
    this.emit('close');
  }
}

const over: IteratorResult<TranscribeResponse> = { done: true, value: undefined };

/** A session about which InferenceService says nothing until it is aborted, or which it refuses. */
function silentSession(refusal?: GatewayError) {
  const aborted = Promise.withResolvers<void>();
  const next = () => (refusal === undefined ? aborted.promise.then(() => over) : Promise.reject(refusal));
  return {
    events: new ClientEvents({ message: { case: 'start', value: {} } }),
    responses: { [Symbol.asyncIterator]: () => ({ next }) },
    abort: () => aborted.resolve(),
  };
}

beforeEach(() => {
  // Not Date: the ids of this process would stay an hour ahead of it in later tests.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
});
afterEach(() => {
  vi.useRealTimers();
});

function carried(refusal?: GatewayError, hold: (bytes: number) => boolean = () => true) {
  const socket = new FakeSocket();
  const session = silentSession(refusal);
  const credential = { isWatched: true };
  const spent: [bytes: number, reader: Reader][] = [];
  const carrying = carrySession(socket, session, {
    request: { log: silentLogger, raw: { socket: socket.connection } } as unknown as FastifyRequest,
    onCredentialEnded: () => () => {
      credential.isWatched = false;
    },
    isCredentialInDoubt: () => false,
    hold,
    spend: (bytes, reader) => spent.push([bytes, reader]),
  });
  return { socket, carrying, credential, spent, events: session.events[Symbol.asyncIterator]() };
}

test('a client that no longer answers pings is cut off at the next one', async () => {
  const { socket, carrying, credential } = carried();
  await vi.advanceTimersByTimeAsync(10 * minuteMs);
  expect(socket.ended).toBeUndefined();
  socket.answers = false;
  await vi.advanceTimersByTimeAsync(minuteMs);
  expect(socket.ended).toBe('cut off');
  await carrying;
  expect([credential.isWatched, vi.getTimerCount()]).toEqual([false, 0]);
});

test('a client whose event takes minutes to arrive, so that its answers to pings come after that, is not cut off', async () => {
  const { socket, carrying } = carried();
  socket.answers = false;
  for (let second = 0; second < 300; second++) {
    socket.connection.emit('data', Buffer.alloc(1024));
    await vi.advanceTimersByTimeAsync(1_000);
  }
  expect(socket.ended).toBeUndefined();
  await vi.advanceTimersByTimeAsync(minuteMs);
  expect(socket.ended).toBe('cut off');
  await carrying;
});

test('a client that is made to wait for minutes, so that its answers to pings are not read, is not cut off', async () => {
  const { socket, carrying, events } = carried();
  await events.next();
  socket.emit('message', Buffer.alloc(2 * mebibyte, ' '), false);
  expect(socket.isPaused).toBe(true);
  await vi.advanceTimersByTimeAsync(10 * minuteMs);
  expect(socket.ended).toBeUndefined();
  await events.next();
  expect(socket.isPaused).toBe(false);
  await vi.advanceTimersByTimeAsync(minuteMs);
  expect(socket.ended).toBeUndefined();
  socket.answers = false;
  await vi.advanceTimersByTimeAsync(minuteMs);
  expect(socket.ended).toBe('cut off');
  await carrying;
});

test('a session ends after 60 minutes, and says so', async () => {
  const { socket, carrying } = carried();
  await vi.advanceTimersByTimeAsync(60 * minuteMs - 1);
  expect(socket.ended).toBeUndefined();
  await vi.advanceTimersByTimeAsync(1);
  expect(socket.ended).toEqual([1001, 'invalid_request_error.session_expired']);
  expect(socket.said.at(-1)!.error!.code).toBe('session_expired');
  await carrying;
  expect(vi.getTimerCount()).toBe(0);
});

test('a client that does not end the closing handshake is cut off after five seconds', async () => {
  const { socket, carrying } = carried();
  await vi.advanceTimersByTimeAsync(60 * minuteMs - 1);
  socket.answers = false;
  await vi.advanceTimersByTimeAsync(5_000);
  expect([socket.closing?.[0], socket.ended]).toEqual([1001, undefined]);
  await vi.advanceTimersByTimeAsync(1);
  expect(socket.ended).toBe('cut off');
  await carrying;
  expect(vi.getTimerCount()).toBe(0);
});

test('messages count from their first byte until they have been handled, finished or not; without room the session ends unread', async () => {
  const room = { bytesMax: 3 * mebibyte, held: 0 };
  const { socket, carrying, events } = carried(undefined, (bytes) => {
    const hasRoom = bytes <= room.bytesMax;
    if (hasRoom) room.held = bytes;
    return hasRoom;
  });
  await events.next();
  const receive = (bytes: number) => socket.connection.emit('data', Buffer.alloc(bytes));
  receive(mebibyte);
  receive(mebibyte);
  expect(room.held).toBe(2 * mebibyte);
  socket.emit('message', Buffer.alloc(2 * mebibyte, ' '), false);
  receive(0);
  expect(room.held).toBe(2 * mebibyte);
  await events.next();
  receive(mebibyte);
  expect(room.held).toBe(3 * mebibyte);
  const next = events.next();
  expect(room.held).toBe(mebibyte);
  receive(2 * mebibyte);
  expect(socket.isPaused).toBe(false);
  receive(1);
  expect(socket.isPaused).toBe(true);
  expect(socket.said.at(-1)!.error!.code).toBe('server_is_overloaded');
  expect(socket.ended).toEqual([1013, 'service_unavailable_error.server_is_overloaded']);
  await Promise.all([carrying, next]);
  expect(room.held).toBe(0);
  expect(vi.getTimerCount()).toBe(0);
});

test('a session that waits for its turn to be read is not taken for silent, and is not read before its events have room', async () => {
  const { socket, carrying, spent } = carried();
  socket.connection.emit('data', Buffer.alloc(10));
  const [bytes, reader] = spent[0]!;
  expect(bytes).toBe(10);
  reader.pause();
  socket.answers = false;
  await vi.advanceTimersByTimeAsync(minuteMs);
  expect(socket.ended).toBeUndefined();
  socket.pause();
  reader.resume();
  expect(socket.isUnread).toBe(true);
  socket.resume();
  reader.pause();
  reader.resume();
  expect(socket.isUnread).toBe(false);
  socket.terminate();
  await carrying;
});

const spent = { retryAfterMs: 3_600_000, resetsAtMs: 3_600_000 };
const heldByOthers = { retryAfterMs: 5_000 };

test.each<[keyof typeof ErrorReason, number, GatewayErrorDetails?]>([
  ['RATE_LIMITED', 1013],
  ['TOKEN_RATE_LIMITED', 1013],
  ['OVERLOADED', 1013],
  ['INTERNAL', 1013],
  ['SPEND_CAP_EXCEEDED', 4000, spent],
  ['SPEND_CAP_EXCEEDED', 1013, heldByOthers],
  ['CREDIT_BALANCE_EXHAUSTED', 4000],
  ['MODEL_NOT_FOUND', 4000],
  ['CANCELLED', 1008],
])(
  'a session that ends with %s closes with %i, which says whether to try again (%j)',
  async (reason, code, details) => {
    const { socket, carrying } = carried(gatewayError(ErrorReason[reason], 'No.', details));
    await carrying;
    expect(socket.closing?.[0]).toBe(code);
  },
);
