import type { UsageEvent } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { isUuid, isUuidv7, uuidv7Ms } from '#shared/ids.ts';
import { costNanoUsdMax } from '#shared/money.ts';

/** Far above anything that a call can use, and low enough for the sum of millions of events to fit into 64 bits. */
const measureMax = 1_000_000_000_000n;
/** An edge's clock may be wrong, but partitions are not made for just any month. */
const aheadMsMax = 31 * 24 * 3_600_000;
/** Before the first release: an earlier time can only be a broken id. */
const earliestMs = Date.UTC(2020, 0, 1);
const textMax = 255;

/** Why an event can never be stored, for the log; null when it can. Each event of a batch is judged separately. */
export function refusalOf(event: UsageEvent, nowMs: number): string | null {
  if (!isUuidv7(event.id)) return 'id is not a UUIDv7';
  const ms = uuidv7Ms(event.id);
  if (ms < earliestMs || ms > nowMs + aheadMsMax) return 'the time in id is out of range';
  for (const field of ['tenantId', 'userId'] as const) {
    if (!isUuid(event[field])) return `${field} is not a UUID`;
  }
  for (const field of ['apiKeyId', 'sessionId', 'deploymentId', 'priceVersionId', 'jobId'] as const) {
    if (event[field] !== '' && !isUuid(event[field])) return `${field} is neither empty nor a UUID`;
  }
  if (!event.leaseIds.every(isUuid)) return 'leaseIds has something other than UUIDs';
  return textRefusal(event) ?? measureRefusal(event);
}

function textRefusal(event: UsageEvent): string | null {
  for (const field of ['model', 'endpoint'] as const) {
    if (event[field] === '') return `${field} is empty`;
  }
  for (const field of ['model', 'endpoint', 'errorCode', 'requestId'] as const) {
    if (event[field].length > textMax) return `${field} is longer than ${textMax} characters`;
    // Postgres has no such character in text.
    if (event[field].includes('\0')) return `${field} has a zero character`;
  }
  return null;
}

function measureRefusal({ usage }: UsageEvent): string | null {
  if (usage === undefined) return 'usage is missing';
  for (const field of [
    'inputTokens',
    'cachedInputTokens',
    'outputTokens',
    'images',
    'audioMs',
    'characters',
  ] as const) {
    if (usage[field] < 0n || usage[field] > measureMax) return `usage.${field} is out of range`;
  }
  if (usage.costNanoUsd < 0n || usage.costNanoUsd > costNanoUsdMax) return 'usage.costNanoUsd is out of range';
  return null;
}
