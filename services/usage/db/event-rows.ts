import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { UsageEventSchema } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { uuidv7Ms } from '#shared/ids.ts';
import type { WholeMessage } from '#shared/whole-message.ts';

/** A row of events. */
export type EventRow = {
  tenant_id: string;
  id: string;
  user_id: string;
  api_key_id: string | null;
  session_id: string | null;
  model: string;
  deployment_id: string | null;
  endpoint: string;
  operation: Operation;
  success: boolean;
  status: number;
  error_code: string;
  input_tokens: bigint;
  cached_input_tokens: bigint;
  output_tokens: bigint;
  images: bigint;
  audio_ms: bigint;
  characters: bigint;
  cost_nano_usd: bigint;
  latency_ms: bigint;
  ttft_ms: bigint | null;
  streamed: boolean;
  price_version_id: string | null;
  request_id: string;
  job_id: string | null;
  lease_ids: string[];
};

/** The event as it was recorded. */
export const eventMessage = (row: EventRow): WholeMessage<typeof UsageEventSchema> => ({
  id: row.id,
  occurredAt: timestampFromMs(uuidv7Ms(row.id)),
  tenantId: row.tenant_id,
  userId: row.user_id,
  apiKeyId: row.api_key_id ?? '',
  sessionId: row.session_id ?? '',
  model: row.model,
  deploymentId: row.deployment_id ?? '',
  endpoint: row.endpoint,
  operation: row.operation,
  success: row.success,
  status: row.status,
  errorCode: row.error_code,
  usage: {
    inputTokens: row.input_tokens,
    cachedInputTokens: row.cached_input_tokens,
    outputTokens: row.output_tokens,
    images: row.images,
    audioMs: row.audio_ms,
    characters: row.characters,
    costNanoUsd: row.cost_nano_usd,
  },
  latencyMs: Number(row.latency_ms),
  ttftMs: row.ttft_ms === null ? undefined : Number(row.ttft_ms),
  streamed: row.streamed,
  priceVersionId: row.price_version_id ?? '',
  requestId: row.request_id,
  jobId: row.job_id ?? '',
  leaseIds: row.lease_ids,
});
