import { operatorCaller } from '#shared/rpc/caller.ts';
import { paygCapAt } from '../budgets.ts';
import { commitmentMessage, planMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { readAccount } from '../ledger/accounts.ts';
import { giveCreditBeforeLook } from '../ledger/monthly-credit.ts';
import { planOf } from '../plans.ts';
import { effectiveRateLimits, ownRateLimits } from '../rate-limits/read-limits.ts';
import { commitmentAt, walletAt } from '../wallet.ts';

export const getAccount =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'getAccount'> =>
  async ({ tenantId }, context) => {
    operatorCaller(context);
    const em = database.em();
    const nowMs = await databaseNow(database.pool);
    await giveCreditBeforeLook(database, tenantId, nowMs);
    const commitment = await commitmentAt(em, tenantId, nowMs);
    const { balances } = await readAccount(database.pool, tenantId);
    return {
      plan: planMessage(await planOf(em, database.pool, tenantId)),
      wallet: await walletAt(database, tenantId, nowMs),
      commitment: commitment === null ? undefined : commitmentMessage(commitment),
      payg: await paygCapAt(database.pool, tenantId, nowMs),
      receivableNanoUsd: balances.receivable,
      rateLimits: await ownRateLimits(database.pool, tenantId),
      effectiveRateLimits: await effectiveRateLimits(database.pool, tenantId),
    };
  };
