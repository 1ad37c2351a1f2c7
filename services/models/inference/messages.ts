import type {
  InvokeEnd,
  InvokeHead,
  InvokeResponse,
  RateLimitState,
} from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { RateLimitReading } from '../limits/rate-limiter.ts';
import type { MeteredEvent } from '../metering/metered-event.ts';

// The messages of every call and chunk, written out: `create` goes through their fields by reflection, which costs several times more.

const noBytes = new Uint8Array();

/** One part of an answer. */
export const answerPart = (
  body: Uint8Array,
  head: InvokeHead | undefined,
  end: InvokeEnd | undefined,
): InvokeResponse => ({ $typeName: 'modelgateway.models.v1.InvokeResponse', head, body, end, background: false });

/** Says that the call asks for a background job. */
export const inBackground = (): InvokeResponse => ({
  $typeName: 'modelgateway.models.v1.InvokeResponse',
  body: noBytes,
  background: true,
});

export const answerHead = (head: Omit<InvokeHead, '$typeName' | '$unknown'>): InvokeHead => ({
  $typeName: 'modelgateway.models.v1.InvokeHead',
  ...head,
});

export const rateLimitState = (reading: RateLimitReading): RateLimitState => ({
  $typeName: 'modelgateway.models.v1.RateLimitState',
  ...reading,
});

/** How a call ended, as its event says. */
export const answerEnd = (event: Readonly<MeteredEvent>): InvokeEnd => ({
  $typeName: 'modelgateway.models.v1.InvokeEnd',
  success: event.success,
  errorCode: event.errorCode,
  eventId: event.id,
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
});
