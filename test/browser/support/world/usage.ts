import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { v7 } from 'uuid';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { type UsageEvent, UsageEventSchema } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { uuidv7 } from '#shared/ids.ts';
import { callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import type { TestGateway } from '../../../support/gateway.ts';
import type { PriceIds } from './catalog.ts';
import type { People } from './people.ts';

const dayMs = 86_400_000;
const hourMs = 3_600_000;

type Who = { tenantId: string; userId: string; apiKeyId?: string };
type Model = keyof PriceIds;

/** nano-USD per token: input and output. */
const rates: Readonly<Record<Model, readonly [bigint, bigint]>> = {
  'acme/ember-70b': [150n, 600n],
  'acme/ember-8b:fast': [20n, 60n],
  'acme/ember-2': [400n, 1_200n],
  'acme/spark': [50n, 100n],
};

function eventAt(
  atMs: number,
  who: Who,
  model: Model,
  priceIds: PriceIds,
  size: number,
  errorCode?: string,
): UsageEvent {
  const failed = errorCode !== undefined;
  const inputTokens = failed ? 0n : BigInt(Math.round(81_200 * size));
  const outputTokens = failed ? 0n : BigInt(Math.round(24_100 * size));
  const [input, output] = rates[model];
  return create(UsageEventSchema, {
    id: v7({ msecs: atMs }),
    occurredAt: timestampFromMs(atMs),
    tenantId: who.tenantId,
    userId: who.userId,
    apiKeyId: who.apiKeyId ?? '',
    sessionId: who.apiKeyId === undefined ? uuidv7() : '',
    model,
    endpoint: '/v1/chat/completions',
    operation: Operation.CHAT_COMPLETIONS,
    success: !failed,
    status: failed ? 502 : 200,
    errorCode: errorCode ?? '',
    latencyMs: Math.round(700 + 900 * size),
    ttftMs: 180,
    requestId: `req_${v7({ msecs: atMs }).replaceAll('-', '')}`,
    priceVersionId: failed ? '' : priceIds[model],
    usage: {
      inputTokens,
      cachedInputTokens: 0n,
      outputTokens,
      costNanoUsd: inputTokens * input + outputTokens * output,
    },
  });
}

/** The most events that Record takes at once. */
const batchMax = 1_000;

/** Failures among the ten latest calls of a key, newest first: some named, one without a name; the rest are successes. */
const latestFailures: Readonly<Record<number, string>> = { 2: 'rate_limit_exceeded', 6: '' };

/**
 * Records `days` days of calls, `perDay` a day and fewer on weekends, after a year of single ones, metered as the edges do. Returns the
 * cost in USD.
 */
export async function recordUsage(
  gateway: TestGateway,
  people: People,
  priceIds: PriceIds,
  keys: { ownerKeyId: string; otherKeyId: string },
  { days, perDay }: { days: number; perDay: number },
): Promise<number> {
  const nowMs = Date.now();
  const { tenantId } = people;
  const first: Who = { tenantId, userId: people.owner.id, apiKeyId: keys.ownerKeyId };
  const second: Who = { tenantId, userId: people.owner.id, apiKeyId: keys.otherKeyId };
  const others: readonly Who[] = [
    second,
    { tenantId, userId: people.admin.id },
    { tenantId, userId: people.member.id },
  ];
  const events: UsageEvent[] = [];
  for (let day = 1; day <= days; day++) {
    const midnightMs = Math.floor(nowMs / dayMs) * dayMs - day * dayMs;
    const weekend = [0, 6].includes(new Date(midnightMs).getUTCDay());
    const size = 1 + 0.35 * Math.sin(day / 3.1) + 0.2 * Math.sin(day * 1.7);
    const count = Math.max(1, Math.round(perDay * (weekend ? 0.35 : 1)));
    for (let call = 0; call < count; call++) {
      const atMs = midnightMs + 8 * hourMs + Math.floor((call / count) * 10 * hourMs) + day * 1_000;
      const model: Model = call % 3 === 2 ? 'acme/ember-2' : 'acme/ember-70b';
      events.push(
        eventAt(atMs, first, model, priceIds, size, day % 9 === 0 && call === 0 ? 'upstream_timeout' : undefined),
      );
    }
    events.push(eventAt(midnightMs + 12 * hourMs, others[day % 3]!, 'acme/ember-8b:fast', priceIds, size));
  }
  for (let month = 4; month <= 12; month++) {
    events.push(eventAt(nowMs - month * 30 * dayMs, first, 'acme/ember-70b', priceIds, 1 + month / 10));
  }
  for (let call = 0; call < 12; call++) {
    const failure = latestFailures[call];
    events.push(eventAt(nowMs - 60_000 - call * 91_000, first, 'acme/ember-70b', priceIds, 0.2, failure));
  }
  const usage = gateway.gateway.switchboard.client('inference', UsageService);
  for (let first = 0; first < events.length; first += batchMax) {
    const batch = events.slice(first, first + batchMax);
    const { rejected } = await usage.record(
      { events: batch },
      { contextValues: callerContext(serviceCaller('inference')) },
    );
    if (rejected.length > 0) throw new Error(`Usage refused ${rejected.length} events: ${rejected[0]!.reason}`);
  }
  await gateway.gateway.switchboard.client('edge', KeysService).recordKeyUse(
    {
      batchId: uuidv7(),
      uses: [
        { tenantId, keyId: keys.ownerKeyId, count: 18_231n, lastUsedAt: timestampFromMs(nowMs - 60_000) },
        { tenantId, keyId: keys.otherKeyId, count: 912n, lastUsedAt: timestampFromMs(nowMs - 3 * hourMs) },
      ],
    },
    { contextValues: callerContext(serviceCaller('edge')) },
  );
  return Number(events.reduce((sum, { usage }) => sum + usage!.costNanoUsd, 0n)) / 1e9;
}
