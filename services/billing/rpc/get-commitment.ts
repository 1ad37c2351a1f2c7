import { commitmentMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { commitmentAt } from '../wallet.ts';
import { adminCaller } from './caller.ts';

export const getCommitment =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'getCommitment'> =>
  async (_request, context) => {
    const { tenantId } = adminCaller(context);
    const commitment = await commitmentAt(database.em(), tenantId, await databaseNow(database.pool));
    return { commitment: commitment === null ? undefined : commitmentMessage(commitment) };
  };
