import { create, isMessage, toJson } from '@bufbuild/protobuf';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { expect, test } from 'vitest';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { UsageEventSchema } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { uuidv7, uuidv7Ms } from '#shared/ids.ts';
import { noMeasures } from '../domain/price.ts';
import { type MeteredEvent, meteredEventCodec, usageEvent } from './metered-event.ts';

const id = uuidv7();
const metered: MeteredEvent = {
  id,
  tenantId: uuidv7(),
  userId: uuidv7(),
  apiKeyId: uuidv7(),
  sessionId: '',
  model: 'small-chat',
  deploymentId: uuidv7(),
  endpoint: '/v1/chat/completions',
  operation: Operation.CHAT_COMPLETIONS,
  success: true,
  status: 200,
  errorCode: '',
  inputTokens: 7,
  cachedInputTokens: 3,
  outputTokens: 5,
  images: 1,
  audioMs: 1_500,
  characters: 9,
  costNanoUsd: 9_007_199_254_740_993n,
  priceVersionId: uuidv7(),
  latencyMs: 12,
  ttftMs: 0,
  streamed: true,
  requestId: 'req_1',
  jobId: '',
  leaseIds: [uuidv7()],
};

test('an event is a message like one that create makes, on any wire', () => {
  const event = usageEvent(metered);
  expect(isMessage(event, UsageEventSchema)).toBe(true);
  expect(timestampMs(event.occurredAt!)).toBe(uuidv7Ms(id));
  const { $typeName: _name, occurredAt, usage, ...fields } = event;
  const made = create(UsageEventSchema, {
    ...fields,
    occurredAt: { seconds: occurredAt!.seconds, nanos: occurredAt!.nanos },
    usage: { ...usage, $typeName: undefined },
  } as never);
  expect(event).toEqual(made);
  expect(toJson(UsageEventSchema, event)).toEqual(toJson(UsageEventSchema, made));
  expect(usageEvent({ ...metered, ttftMs: null }).ttftMs).toBeUndefined();
});

/** A new call, as it is journaled when admitted. */
const begun: MeteredEvent = {
  ...metered,
  ...noMeasures,
  deploymentId: '',
  success: false,
  status: 0,
  costNanoUsd: 0n,
  latencyMs: 0,
  ttftMs: null,
};
const decoded = (text: string) => meteredEventCodec.decode(JSON.parse(text));

test('the journal returns the event as it was, begun and ended, with money to the last unit', () => {
  const text = meteredEventCodec.encode(begun);
  expect(decoded(text)).toEqual(begun);
  expect(decoded(meteredEventCodec.encodeEnd(metered, text))).toEqual(metered);
});

test("the event of a job's success keeps the id that it was given at its end", () => {
  const call = { ...begun, jobId: uuidv7() };
  const success = { ...metered, jobId: call.jobId, id: uuidv7() };
  expect(decoded(meteredEventCodec.encodeEnd(success, meteredEventCodec.encode(call)))).toEqual(success);
});

test.each([null, 7, 'text', {}, [], [7], [id], [[]], [[id]]])('what is not an event is refused: %j', (json) => {
  expect(() => meteredEventCodec.decode(json)).toThrow('not a metered event');
});

test("a call interrupted by the death of its process is an event, but a job's is not: the job makes it again", () => {
  const progress = { outputTokens: 3, costNanoUsd: '30' };
  expect(meteredEventCodec.interrupted(metered, progress)).toMatchObject({ id, success: false, costNanoUsd: 30n });
  expect(meteredEventCodec.interrupted({ ...metered, jobId: uuidv7() }, null)).toBeNull();
});
