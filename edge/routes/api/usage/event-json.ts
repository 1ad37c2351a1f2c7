import { type Static, Type } from 'typebox';
import type { UsageEvent } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { publicJobId } from '#shared/ids.ts';
import { usdJson } from '#shared/money.ts';
import { operationName } from '#shared/operations.ts';
import { idSchema, isoTime, isoTimeSchema, usdSchema } from '../../../http/json.ts';
import { orNull } from '../../../http/nullable.ts';
import { quantitiesJson, quantitiesSchema } from '../../../http/quantities-json.ts';

/** One metered call (decisions.md, Usage). */
export const eventSchema = Type.Object(
  {
    id: idSchema,
    occurred_at: {
      ...isoTimeSchema,
      description: 'When the call, or the attempt of a job, began. It is listed once it has ended.',
    },
    api_key_id: orNull(Type.String({ format: 'uuid', description: 'Null for a session.' })),
    user_id: idSchema,
    model: Type.String(),
    endpoint: Type.String({
      description: 'With the prefix `/v1`, whichever was used, e.g. `/v1/chat/completions`.',
    }),
    operation: Type.String({ description: 'Such as `chat_completions`.' }),
    success: Type.Boolean(),
    status: Type.Integer({
      description: 'The HTTP status; for an utterance of a realtime session, that of a call for it.',
    }),
    error_code: orNull(Type.String()),
    ...quantitiesSchema.properties,
    latency_ms: Type.Integer({ description: 'From admission to the last byte of the response.' }),
    ttft_ms: orNull(Type.Integer({ description: 'From admission to the first byte of the response body.' })),
    cost_usd: usdSchema,
    request_id: Type.String({ description: 'The `x-request-id` of the response.' }),
    job_id: orNull(
      Type.String({ description: 'The background job of which it was an attempt; null for other calls.' }),
    ),
  },
  { $id: 'UsageEvent' },
);
export function eventJson(event: UsageEvent): Static<typeof eventSchema> {
  const used = event.usage!;
  return {
    id: event.id,
    occurred_at: isoTime(event.occurredAt!),
    api_key_id: event.apiKeyId || null,
    user_id: event.userId,
    model: event.model,
    endpoint: event.endpoint,
    operation: operationName(event.operation),
    success: event.success,
    status: event.status,
    error_code: event.errorCode || null,
    ...quantitiesJson(used),
    latency_ms: event.latencyMs,
    ttft_ms: event.ttftMs ?? null,
    cost_usd: usdJson(used.costNanoUsd),
    request_id: event.requestId,
    job_id: event.jobId === '' ? null : publicJobId(event.jobId),
  };
}

/** One metered call for operators, who also see whose it was, and where it went. */
export const adminEventSchema = Type.Object(
  {
    ...eventSchema.properties,
    tenant_id: idSchema,
    deployment_id: orNull(
      Type.String({ format: 'uuid', description: 'The one that answered last; null if none was called.' }),
    ),
    price_id: orNull(Type.String({ format: 'uuid', description: 'Null if nothing was to be charged.' })),
  },
  { $id: 'AdminUsageEvent' },
);
export const adminEventJson = (event: UsageEvent): Static<typeof adminEventSchema> => ({
  ...eventJson(event),
  tenant_id: event.tenantId,
  deployment_id: event.deploymentId || null,
  price_id: event.priceVersionId || null,
});
