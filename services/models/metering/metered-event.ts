import type { MeteredUsage } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { UsageEvent } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { uuidv7Ms } from '#shared/ids.ts';
import { type Measures, noMeasures } from '../domain/price.ts';
import type { EventCodec } from './event-codec.ts';

/** A usage event in the form that the hot path keeps: flat, and quickly converted to JSON. Its fields are those of UsageEvent. */
export type MeteredEvent = Measures & {
  /** UUIDv7; its time is the moment of admission. */
  id: string;
  tenantId: string;
  userId: string;
  apiKeyId: string;
  sessionId: string;
  model: string;
  deploymentId: string;
  endpoint: string;
  operation: Operation;
  success: boolean;
  status: number;
  errorCode: string;
  costNanoUsd: bigint;
  priceVersionId: string;
  latencyMs: number;
  ttftMs: number | null;
  streamed: boolean;
  requestId: string;
  jobId: string;
  leaseIds: readonly string[];
};

/** The content of a progress record: what an open request would be charged if the process died now. */
export type MeteredProgress = { outputTokens: number; costNanoUsd: string };

/** The error code of requests that were cut off by the death of their gateway process. */
export const interruptedCode = 'gateway_interrupted';

/** The order of an event's fields in the journal, where they are identified by position: names would double the bytes and the time. */
const admitted = [
  'id',
  'tenantId',
  'userId',
  'apiKeyId',
  'sessionId',
  'model',
  'endpoint',
  'operation',
  'streamed',
  'priceVersionId',
  'requestId',
  'jobId',
  'leaseIds',
] as const satisfies readonly (keyof MeteredEvent)[];

/** What is known only at the end, in a separate list after the first. */
const ended = [
  'deploymentId',
  'success',
  'status',
  'errorCode',
  'inputTokens',
  'cachedInputTokens',
  'outputTokens',
  'images',
  'audioMs',
  'characters',
  'costNanoUsd',
  'latencyMs',
  'ttftMs',
] as const satisfies readonly (keyof MeteredEvent)[];

/** The end fields of an event that has not ended. */
const notEnded = {
  deploymentId: '',
  success: false,
  status: 0,
  errorCode: '',
  ...noMeasures,
  costNanoUsd: 0n,
  latencyMs: 0,
  ttftMs: null,
} as const satisfies Pick<MeteredEvent, (typeof ended)[number]>;

/** A MeteredEvent with money as text. */
type Journaled = Omit<MeteredEvent, 'costNanoUsd'> & { costNanoUsd: string };
type Fields<Names extends readonly (keyof Journaled)[]> = { -readonly [Place in keyof Names]: Journaled[Names[Place]] };

/** The encoding of metered events in the journal. */
export const meteredEventCodec: EventCodec<MeteredEvent, MeteredProgress> = {
  encode(event) {
    // Written out: a loop over the positions would cost half of what they save.
    const first: Fields<typeof admitted> = [
      event.id,
      event.tenantId,
      event.userId,
      event.apiKeyId,
      event.sessionId,
      event.model,
      event.endpoint,
      event.operation,
      event.streamed,
      event.priceVersionId,
      event.requestId,
      event.jobId,
      event.leaseIds,
    ];
    return `[${JSON.stringify(first)}]`;
  },

  encodeEnd(event, begun) {
    // The event for a job's success has an id of its own.
    const known = event.jobId === '' ? begun : meteredEventCodec.encode(event);
    const fields: Fields<typeof ended> = [
      event.deploymentId,
      event.success,
      event.status,
      event.errorCode,
      event.inputTokens,
      event.cachedInputTokens,
      event.outputTokens,
      event.images,
      event.audioMs,
      event.characters,
      String(event.costNanoUsd),
      event.latencyMs,
      event.ttftMs,
    ];
    return `${known.slice(0, -1)},${JSON.stringify(fields)}]`;
  },

  decode(json) {
    const [first, last] = Array.isArray(json) ? json : [];
    const stored: Partial<Journaled> = {
      ...notEnded,
      costNanoUsd: '0',
      ...byName(admitted, first),
      ...byName(ended, last),
    };
    if (typeof stored.id !== 'string' || typeof stored.tenantId !== 'string')
      throw new TypeError('not a metered event');
    return { ...(stored as Journaled), costNanoUsd: BigInt(stored.costNanoUsd!) };
  },

  interrupted(begin, progress) {
    // The job repeats its call, under the same leases: an event would close them, and appear in reports as a failed request.
    if (begin.jobId !== '') return null;
    return {
      ...begin,
      success: false,
      status: 499,
      errorCode: interruptedCode,
      // Without progress nothing was delivered, and nothing is charged.
      inputTokens: progress === null ? 0 : begin.inputTokens,
      outputTokens: progress?.outputTokens ?? 0,
      costNanoUsd: BigInt(progress?.costNanoUsd ?? 0),
    };
  },
};

const byName = (names: readonly string[], values: unknown): object =>
  Array.isArray(values) ? Object.fromEntries(names.map((name, place) => [name, values[place]])) : {};

/** What an event used, in the form of messages. */
export const meteredUsage = (event: Readonly<MeteredEvent>): MeteredUsage => ({
  $typeName: 'modelgateway.models.v1.MeteredUsage',
  inputTokens: bigCount(event.inputTokens),
  cachedInputTokens: bigCount(event.cachedInputTokens),
  outputTokens: bigCount(event.outputTokens),
  images: bigCount(event.images),
  audioMs: bigCount(event.audioMs),
  characters: bigCount(event.characters),
  costNanoUsd: event.costNanoUsd,
});

/** Most counts are zero, which shares one bigint; every other one is an object that lives until the event is charged. */
const bigCount = (count: number): bigint => (count === 0 ? 0n : BigInt(count));

/**
 * The event in the form that Usage takes: the message itself, written out, since `create` would cost more than everything else in the
 * shipper.
 */
export function usageEvent(event: MeteredEvent): UsageEvent {
  const ms = uuidv7Ms(event.id);
  const second = Math.floor(ms / 1_000);
  return {
    $typeName: 'modelgateway.usage.v1.UsageEvent',
    id: event.id,
    occurredAt: {
      $typeName: 'google.protobuf.Timestamp',
      seconds: BigInt(second),
      nanos: (ms - second * 1_000) * 1_000_000,
    },
    tenantId: event.tenantId,
    userId: event.userId,
    apiKeyId: event.apiKeyId,
    sessionId: event.sessionId,
    model: event.model,
    deploymentId: event.deploymentId,
    endpoint: event.endpoint,
    operation: event.operation,
    success: event.success,
    status: event.status,
    errorCode: event.errorCode,
    usage: meteredUsage(event),
    latencyMs: event.latencyMs,
    ttftMs: event.ttftMs ?? undefined,
    streamed: event.streamed,
    priceVersionId: event.priceVersionId,
    requestId: event.requestId,
    jobId: event.jobId,
    leaseIds: event.leaseIds as string[],
  };
}
