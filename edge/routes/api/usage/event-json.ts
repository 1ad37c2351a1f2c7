import type { UsageEvent } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { usdJson } from '#shared/money.ts';
import { operationName } from '#shared/operation-name.ts';
import { isoTime } from '../../../http/json.ts';
import { quantitiesJson } from './measures-json.ts';

/** One metered call (decisions.md, Usage). */
export function eventJson(event: UsageEvent) {
  const used = event.usage!;
  return {
    id: event.id,
    occurred_at: isoTime(event.occurredAt),
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
  };
}
