import type {
  InvokeEnd,
  InvokeHead,
  InvokeResponse,
  RateLimitState,
} from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { RateLimitReading } from '../limits/rate-limiter.ts';
import { type MeteredEvent, meteredUsage } from '../metering/metered-event.ts';

// The messages of every call and chunk, written out: `create` walks their fields by reflection, which costs several times as much.

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

/** What is known of an answer's head before its upstream is asked. */
export type AdmittedHead = Pick<InvokeHead, 'model' | 'retirement' | 'rateLimit'>;

/** The head of an answer; its length is set once that is known. */
export const answerHead = (admitted: AdmittedHead, status: number, contentType: string): InvokeHead => ({
  $typeName: 'modelgateway.models.v1.InvokeHead',
  model: admitted.model,
  retirement: admitted.retirement,
  rateLimit: admitted.rateLimit,
  status,
  contentType,
  contentLength: undefined,
});

export const rateLimitState = (reading: RateLimitReading): RateLimitState => ({
  $typeName: 'modelgateway.models.v1.RateLimitState',
  limitRequests: reading.limitRequests,
  remainingRequests: reading.remainingRequests,
  resetRequestsMs: reading.resetRequestsMs,
  limitTokens: reading.limitTokens,
  remainingTokens: reading.remainingTokens,
  resetTokensMs: reading.resetTokensMs,
});

/** How a call ended, taken from its event. */
export const answerEnd = (event: Readonly<MeteredEvent>): InvokeEnd => ({
  $typeName: 'modelgateway.models.v1.InvokeEnd',
  success: event.success,
  errorCode: event.errorCode,
  eventId: event.id,
  usage: meteredUsage(event),
});
