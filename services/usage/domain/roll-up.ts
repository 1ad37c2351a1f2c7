import { NIL } from 'uuid';
import type { UsageEvent } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { uuidv7Ms } from '#shared/ids.ts';
import { quarterHourMs } from './parts.ts';

/** Replaces the key id of calls made by sessions. */
export const noKeyId = NIL;

/** Everything that roll-ups distinguish. */
type RollUpKey = {
  bucketStartMs: number;
  tenantId: string;
  /** `noKeyId` for sessions. */
  apiKeyId: string;
  userId: string;
  model: string;
  endpoint: string;
};

/** The sums of some events with the same roll-up key. */
export type RollUp = RollUpKey & {
  requests: number;
  successfulRequests: number;
  inputTokens: bigint;
  cachedInputTokens: bigint;
  outputTokens: bigint;
  images: bigint;
  audioMs: bigint;
  characters: bigint;
  durationMs: number;
  costNanoUsd: bigint;
  /** Calls with at least one cached prompt token, and calls with prompt tokens of which none was cached. */
  cacheHits: number;
  cacheMisses: number;
  /** The time of calls that produced output tokens. */
  generatingMs: number;
};

/**
 * Sums events by quarter hour, in an order that is the same for every batch: writing the rows in it may wait for another batch, but never
 * deadlocks.
 */
export function rollUp(events: readonly UsageEvent[]): RollUp[] {
  const rollUps = new Map<string, RollUp>();
  for (const event of events) {
    const bucketStartMs = Math.floor(uuidv7Ms(event.id) / quarterHourMs) * quarterHourMs;
    const apiKeyId = event.apiKeyId || noKeyId;
    const { tenantId, userId, model, endpoint } = event;
    const name = rollUpName({ bucketStartMs, tenantId, apiKeyId, userId, model, endpoint });
    let sums = rollUps.get(name);
    if (sums === undefined) {
      sums = empty(event, bucketStartMs, apiKeyId);
      rollUps.set(name, sums);
    }
    add(sums, event);
  }
  return [...rollUps].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, sums]) => sums);
}

/** The roll-up key as text. It sorts like the primary key; no text contains the zero character (usage-event.ts). */
export const rollUpName = (key: RollUpKey): string =>
  `${key.bucketStartMs}${key.tenantId}${key.apiKeyId}${key.userId}${key.model}\0${key.endpoint}`;

function add(sums: RollUp, event: UsageEvent): void {
  const used = event.usage!;
  sums.requests += 1;
  if (event.success) sums.successfulRequests += 1;
  sums.inputTokens += used.inputTokens;
  sums.cachedInputTokens += used.cachedInputTokens;
  sums.outputTokens += used.outputTokens;
  sums.images += used.images;
  sums.audioMs += used.audioMs;
  sums.characters += used.characters;
  sums.durationMs += event.latencyMs;
  sums.costNanoUsd += used.costNanoUsd;
  if (used.cachedInputTokens > 0n) sums.cacheHits += 1;
  else if (used.inputTokens > 0n) sums.cacheMisses += 1;
  if (used.outputTokens > 0n) sums.generatingMs += event.latencyMs;
}

const empty = (event: UsageEvent, bucketStartMs: number, apiKeyId: string): RollUp => ({
  tenantId: event.tenantId,
  bucketStartMs,
  userId: event.userId,
  apiKeyId,
  model: event.model,
  endpoint: event.endpoint,
  requests: 0,
  successfulRequests: 0,
  inputTokens: 0n,
  cachedInputTokens: 0n,
  outputTokens: 0n,
  images: 0n,
  audioMs: 0n,
  characters: 0n,
  durationMs: 0,
  costNanoUsd: 0n,
  cacheHits: 0,
  cacheMisses: 0,
  generatingMs: 0,
});
