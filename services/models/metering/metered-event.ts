import type { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { UsageEvent } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { uuidv7Ms } from '#shared/ids.ts';
import type { Measures } from '../domain/price.ts';
import type { EventCodec } from './event-codec.ts';

/** A usage event as the hot path keeps it: flat, and quick to turn into JSON. Its fields are those of UsageEvent. */
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

/** What a progress record says of an open request: what it would be charged for if the process died now. */
export type MeteredProgress = { outputTokens: number; costNanoUsd: string };

/** The error code of requests that were cut off by the death of their gateway process. */
export const interruptedCode = 'gateway_interrupted';

/** The order of an event's fields in the journal, where they stand by position: their names would take as many bytes and as much time again. */
const places = [
  'id',
  'tenantId',
  'userId',
  'apiKeyId',
  'sessionId',
  'model',
  'deploymentId',
  'endpoint',
  'operation',
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
  'priceVersionId',
  'latencyMs',
  'ttftMs',
  'streamed',
  'requestId',
  'jobId',
  'leaseIds',
] as const satisfies readonly (keyof MeteredEvent)[];

/** A MeteredEvent with money as text. */
type Journaled = Omit<MeteredEvent, 'costNanoUsd'> & { costNanoUsd: string };
type Fields<Names extends readonly (keyof Journaled)[]> = { -readonly [Place in keyof Names]: Journaled[Names[Place]] };

/** How metered events stand in the journal. */
export const meteredEventCodec: EventCodec<MeteredEvent, MeteredProgress> = {
  encode(event) {
    // Written out: to go through the places would cost half of what they save.
    const fields: Fields<typeof places> = [
      event.id,
      event.tenantId,
      event.userId,
      event.apiKeyId,
      event.sessionId,
      event.model,
      event.deploymentId,
      event.endpoint,
      event.operation,
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
      event.priceVersionId,
      event.latencyMs,
      event.ttftMs,
      event.streamed,
      event.requestId,
      event.jobId,
      event.leaseIds,
    ];
    return JSON.stringify(fields);
  },

  decode(json) {
    // Journals of before 22 November 2026 have the names.
    const stored = (
      Array.isArray(json) ? Object.fromEntries(places.map((name, place) => [name, json[place]])) : json
    ) as Journaled | null;
    if (typeof stored?.id !== 'string' || typeof stored.tenantId !== 'string')
      throw new TypeError('not a metered event');
    return { ...stored, costNanoUsd: BigInt(stored.costNanoUsd) };
  },

  interrupted(begin, progress) {
    // A job makes its call again, under the same leases: an event would close them, and stand in reports as a request that failed.
    if (begin.jobId !== '') return null;
    return {
      ...begin,
      success: false,
      status: 499,
      errorCode: interruptedCode,
      // Without any progress nothing was delivered, and nothing is charged.
      inputTokens: progress === null ? 0 : begin.inputTokens,
      outputTokens: progress?.outputTokens ?? 0,
      costNanoUsd: BigInt(progress?.costNanoUsd ?? 0),
    };
  },
};

/** The event as Usage takes it: the message itself, since `create` would cost more than all else that the shipper does. */
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
    usage: {
      $typeName: 'modelgateway.models.v1.MeteredUsage',
      inputTokens: BigInt(event.inputTokens),
      cachedInputTokens: BigInt(event.cachedInputTokens),
      outputTokens: BigInt(event.outputTokens),
      images: BigInt(event.images),
      audioMs: BigInt(event.audioMs),
      characters: BigInt(event.characters),
      costNanoUsd: event.costNanoUsd,
    },
    latencyMs: event.latencyMs,
    ttftMs: event.ttftMs ?? undefined,
    streamed: event.streamed,
    priceVersionId: event.priceVersionId,
    requestId: event.requestId,
    jobId: event.jobId,
    leaseIds: [...event.leaseIds],
  };
}
