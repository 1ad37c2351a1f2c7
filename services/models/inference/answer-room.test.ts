import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { ErrorReason, internalError } from '#shared/errors.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { freeHold } from '../limits/hold.ts';
import { MeteredCall } from '../metering/metered-call.ts';
import { AnswerRoom, type AnswerShare } from './answer-room.ts';
import { Delivery } from './delivery.ts';
import { EventStreamReader } from './event-stream-reader.ts';
import { PulledExchange } from './exchange.ts';
import { WholeAnswerReader } from './whole-answer-reader.ts';

const mebibyte = 1024 * 1024;
const shareOf = (userId: string): AnswerShare => ({ userId, bytes: 0, wake() {} });

test('whoever came first may always continue, and others while at least a third of what their user holds is left free', () => {
  const room = new AnswerRoom(8 * mebibyte);
  const [first, second, other, small] = ['one', 'one', 'other', 'one'].map(shareOf) as [AnswerShare, ...AnswerShare[]];
  room.hold(first, 5 * mebibyte);
  room.hold(second!, mebibyte);
  expect(room.hasRoom(second!)).toBe(true);
  room.hold(second!, mebibyte + 1);
  room.hold(other!, mebibyte);
  room.hold(small!, 64 * 1024);
  expect([first, second!, other!, small!].map((share) => room.hasRoom(share))).toEqual([true, false, true, true]);
  room.hold(first, 0);
  expect(room.hasRoom(second!)).toBe(true);
});

const clock = new ManualClock(0);
const attempts = { free() {} };
const journal = {
  healthy: true,
  begin() {},
  progress: (_id: string, _progress: object, written: () => void) => written(),
  end: (_id: string, _event: object, written: () => void) => written(),
  drop() {},
};
const meteredBy = (userId: string): MeteredCall =>
  new MeteredCall(
    { journal, clock },
    {
      caller: { tenantId: 'tenant', userId, apiKeyId: 'key', sessionId: '', requestId: 'request' },
      model: 'images',
      operation: Operation.IMAGES_GENERATIONS,
      streamed: false,
      price: null,
      hold: freeHold,
      job: null,
    },
  );

/** An answer of 4 MiB that its upstream sends as fast as it is accepted, whole or in events of 1 MiB. */
function answer(room: AnswerRoom, userId: string, { isAnswer = true, streamed = false } = {}) {
  const signal = { aborted: false };
  const exchange = new PulledExchange();
  const sent = { bytes: 0, isPaused: false };
  let goOn = (): void => {};
  exchange.attach({
    pause() {
      sent.isPaused = true;
    },
    resume() {
      sent.isPaused = false;
      goOn();
    },
    abort() {},
  });
  const send = async (): Promise<void> => {
    for (; sent.bytes < 4 * mebibyte; sent.bytes += mebibyte / 16) {
      while (sent.isPaused) {
        await new Promise<void>((resolve) => {
          goOn = resolve;
        });
      }
      const piece = Buffer.alloc(mebibyte / 16, 'x');
      if (streamed && sent.bytes % mebibyte === 0) piece.write('data: {"b64_json":"');
      // Without its end, an event is none.
      if (streamed && isAnswer && (sent.bytes + piece.length) % mebibyte === 0) piece.write('"}\n\n', piece.length - 4);
      exchange.onData(piece);
      await nextTurn();
    }
    exchange.onEnd();
  };
  const reader = streamed
    ? new EventStreamReader({ lastEvent: '', deltaEvent: null, measure: () => ({}) })
    : new WholeAnswerReader((body) => (isAnswer ? { forward: [body], reported: {}, counted: async () => ({}) } : null));
  const admitted = { model: 'images', retirement: undefined, rateLimit: undefined };
  const head = { status: 200, header: () => undefined };
  const upstream = { redact: (text: string) => text };
  const answered = { exchange, reader, head, upstream };
  const metered = meteredBy(userId);
  const delivery = new Delivery({ clock, answerRoom: room }, { answered, attempts, metered, admitted, signal });
  void send();
  const given = delivery.next();
  return { exchange, sent, delivery, given, signal };
}

test('answers without room pause their upstreams, and all are delivered, one after the other', async () => {
  const room = new AnswerRoom(6 * mebibyte);
  const answers = Array.from({ length: 5 }, () => answer(room, 'user'));
  const bytesSent = (): number => answers.reduce((sum, { sent }) => sum + sent.bytes, 0);
  let held = 0;
  for (const { given, delivery } of answers) {
    expect((await given)!.body.byteLength).toBe(4 * mebibyte);
    await expect.poll(() => answers.every(({ sent }) => sent.isPaused || sent.bytes === 4 * mebibyte)).toBe(true);
    // What waits in each exchange comes on top of that.
    expect(bytesSent() - held).toBeLessThan(10 * mebibyte);
    delivery.close();
    held += 4 * mebibyte;
  }
});

test('streams of large events whose callers do not read pause their upstreams, and resume once others have read theirs', async () => {
  const room = new AnswerRoom(6 * mebibyte);
  const answers = Array.from({ length: 20 }, () => answer(room, 'user', { streamed: true }));
  const bytesSent = (): number => answers.reduce((sum, { sent }) => sum + sent.bytes, 0);
  await expect.poll(() => answers.every(({ sent }) => sent.isPaused)).toBe(true);
  // What waits in each exchange comes on top of that.
  expect(bytesSent()).toBeLessThan((6 + 20 * 0.375) * mebibyte);
  const taking = answers.map(async ({ given, delivery }) => {
    let bytes = 0;
    for (let part = await given; part!.end === undefined; part = await delivery.next()) bytes += part!.body.byteLength;
    delivery.close();
    return bytes;
  });
  expect(await Promise.all(taking)).toEqual(answers.map(() => 4 * mebibyte));
});

test.each(['whole', 'streamed'])('what turns out not to be an answer, %s, makes room for another', async (form) => {
  const room = new AnswerRoom(mebibyte);
  const none = answer(room, 'a', { isAnswer: false, streamed: form === 'streamed' });
  const second = answer(room, 'b');
  expect(await none.given).toBeNull();
  const third = answer(room, 'c');
  await expect.poll(() => third.sent.isPaused).toBe(true);
  expect((await second.given)!.body.byteLength).toBe(4 * mebibyte);
  second.delivery.close();
  expect((await third.given)!.body.byteLength).toBe(4 * mebibyte);
});

test('a caller who leaves, and an upstream that fails, end an answer that waits for room', async () => {
  const room = new AnswerRoom(mebibyte);
  const [first, left, failed] = ['a', 'b', 'c'].map((user) => answer(room, user)) as [
    ReturnType<typeof answer>,
    ReturnType<typeof answer>,
    ReturnType<typeof answer>,
  ];
  expect((await first.given)!.body.byteLength).toBe(4 * mebibyte);
  await expect.poll(() => left.sent.isPaused && failed.sent.isPaused).toBe(true);
  left.signal.aborted = true;
  left.exchange.interrupt();
  await expect(left.given).rejects.toMatchObject({ message: 'The request was cancelled.' });
  failed.exchange.expire();
  await expect(failed.given).rejects.toThrow();
});

test('a call whose time is over while its answer waits to be taken says nothing about its deployment', async () => {
  const { exchange, sent, delivery, given } = answer(new AnswerRoom(8 * mebibyte), 'user', { streamed: true });
  await given;
  await expect.poll(() => sent.isPaused).toBe(true);
  exchange.expire();
  for (let part = await given; part!.end === undefined; part = await delivery.next());
  expect(delivery.failure).toMatchObject({ error: { reason: ErrorReason.UPSTREAM_TIMEOUT } });
  expect(delivery.verdict).toEqual({ kind: 'none' });
});

test('an answer that cannot be counted ends all the same, and is charged what was passed on', async () => {
  const exchange = new PulledExchange();
  let isStopped = false;
  exchange.attach({
    pause() {},
    resume() {},
    abort() {
      isStopped = true;
    },
  });
  const counted = () => Promise.reject(new Error('no vocabulary'));
  const reader = new EventStreamReader({ lastEvent: 'done', deltaEvent: 'delta', measure: () => null, counted });
  const head = { status: 200, header: () => undefined };
  const answered = { exchange, reader, head, upstream: { redact: (text: string) => text } };
  const metered = meteredBy('user');
  const admitted = { model: 'images', retirement: undefined, rateLimit: undefined };
  const signal = { aborted: false };
  const delivery = new Delivery(
    { clock, answerRoom: new AnswerRoom(mebibyte) },
    { answered, attempts, metered, admitted, signal },
  );
  exchange.onData(Buffer.from('data: {"type":"delta","delta":"a"}\n\ndata: {"type":"delta","delta":"b"}\n\n'));
  await delivery.next();
  exchange.onData(Buffer.from('data: {"type":"done"}\n\n'));
  await delivery.next();
  const error = await delivery.next().catch((thrown) => thrown);
  expect(error).toMatchObject({ message: 'no vocabulary' });
  await delivery.abandon(internalError(error));
  expect([metered.ended, isStopped, metered.event.outputTokens]).toEqual([true, true, 2]);
});

test('a deployment has room for the next call while what it answered is still counted', async () => {
  const exchange = new PulledExchange();
  exchange.attach({ pause() {}, resume() {}, abort() {} });
  const counting = Promise.withResolvers<object>();
  const counted = () => counting.promise;
  const reader = new WholeAnswerReader((body) => ({ forward: [body], reported: null, counted }));
  const head = { status: 200, header: () => undefined };
  const answered = { exchange, reader, head, upstream: { redact: (text: string) => text } };
  const admitted = { model: 'images', retirement: undefined, rateLimit: undefined };
  const freed: unknown[] = [];
  const delivery = new Delivery(
    { clock, answerRoom: new AnswerRoom(mebibyte) },
    {
      answered,
      attempts: { free: (verdict) => freed.push(verdict) },
      metered: meteredBy('user'),
      admitted,
      signal: { aborted: false },
    },
  );
  exchange.onData(Buffer.from('{}'));
  exchange.onEnd();
  const given = delivery.next();
  await nextTurn();
  expect(freed).toEqual([{ kind: 'good' }]);
  counting.resolve({});
  expect((await given)!.end!.success).toBe(true);
});
