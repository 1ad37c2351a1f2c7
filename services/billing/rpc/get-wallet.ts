import type { BillingDeps, BillingRpc } from '../deps.ts';
import { giveCreditBeforeLook } from '../ledger/monthly-credit.ts';
import { walletAt } from '../wallet.ts';
import { adminCaller } from './caller.ts';

export const getWallet =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'getWallet'> =>
  async (_request, context) => {
    const { tenantId } = adminCaller(context);
    const nowMs = await databaseNow(database.pool);
    await giveCreditBeforeLook(database, tenantId, nowMs);
    return { wallet: await walletAt(database, tenantId, nowMs) };
  };
