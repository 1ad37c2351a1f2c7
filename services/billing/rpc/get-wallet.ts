import type { BillingDeps, BillingRpc } from '../deps.ts';
import { walletAt } from '../wallet.ts';
import { adminCaller } from './caller.ts';

export const getWallet =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'getWallet'> =>
  async (_request, context) => {
    const { tenantId } = adminCaller(context);
    return { wallet: await walletAt(database.em(), tenantId, await databaseNow(database.pool)) };
  };
