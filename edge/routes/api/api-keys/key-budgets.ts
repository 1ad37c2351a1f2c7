import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { Key } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { usdJson } from '#shared/money.ts';
import { asService } from '#shared/rpc/caller.ts';
import type { RouteDeps } from '../../../app.ts';
import { isoTime, isoTimeSchema, usdSchema } from '../../../http/json.ts';
import { orNull } from '../../../http/nullable.ts';

/** How much of a key's daily cap is spent (decisions.md, Keys). */
export const keyBudgetSchema = Type.Object(
  { spent_today_usd: orNull(usdSchema), resets_at: isoTimeSchema },
  { description: 'How much of the daily cap is spent; null while that is unknown.' },
);
export type KeyBudget = Static<typeof keyBudgetSchema>;

const dayMs = 86_400_000;
/** How long keys wait for what they have spent, in milliseconds: a client that gives up would never see a new key's secret. */
const spendTimeoutMs = 1_000;

/**
 * The budgets of those of the caller's keys that have a cap, by key, in one question to Billing. Keys are shown without Billing too: then
 * the spending is unknown, and the amounts are null.
 */
export async function budgetsOf(
  { billing, clock, logger }: Pick<RouteDeps, 'billing' | 'clock' | 'logger'>,
  keys: readonly Key[],
  { principal }: FastifyRequest,
): Promise<ReadonlyMap<string, KeyBudget>> {
  const apiKeyIds = keys.filter(({ constraints }) => constraints?.spendCapNanoUsd !== undefined).map(({ id }) => id);
  if (apiKeyIds.length === 0) return new Map();
  const asked = { apiKeyIds, tenantId: principal!.tenantId };
  const answer = await billing
    .getSpendToday(asked, { ...asService('edge'), timeoutMs: spendTimeoutMs })
    .catch((err: unknown) => {
      // The feed of rate limits, which breaks off as well, is logged once a minute; keys may be listed at any rate.
      logger.debug({ err }, 'the spend of API keys could not be read; they are listed without it');
      return null;
    });
  if (answer === null) {
    const nextDay = new Date((Math.floor(clock.now() / dayMs) + 1) * dayMs).toISOString();
    return new Map(apiKeyIds.map((id) => [id, { spent_today_usd: null, resets_at: nextDay }]));
  }
  const resetsAt = isoTime(answer.resetsAt!);
  return new Map(
    answer.spends.map(({ apiKeyId, spentNanoUsd }) => [
      apiKeyId,
      { spent_today_usd: usdJson(spentNanoUsd), resets_at: resetsAt },
    ]),
  );
}

/** The budget of one key; null without a cap. */
export const budgetOf = async (
  deps: Pick<RouteDeps, 'billing' | 'clock' | 'logger'>,
  key: Key,
  request: FastifyRequest,
): Promise<KeyBudget | null> => (await budgetsOf(deps, [key], request)).get(key.id) ?? null;
