import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import type { Sql } from '#shared/db/sql.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { amountMax, usdText } from '#shared/money.ts';
import { larger } from '../domain/amounts.ts';
import { postingDefaults } from '../domain/ledger.ts';
import type { Account } from './accounts.ts';
import { lockFunds, saveFunds } from './funds.ts';
import { giveDueCredit } from './monthly-credit.ts';
import { post } from './post.ts';

/** Credit to be taken back. */
type TakenCredit = {
  amountNanoUsd: bigint;
  description: string;
  requestId: string | null;
  reversesId?: string;
  /** Where the money goes, if not back to what was granted. */
  to?: 'funding';
  /** The lot from which it is taken first; absent: the one that usage would draw first. */
  lotId?: string | null;
  /** Whether the organization owes what it has not; otherwise CONFLICT. */
  allowNegativeBalance: boolean;
};

/** Takes credit back from a locked organization, in the order in which usage would draw it; returns the transaction's id. */
export async function takeCredit(sql: Sql, account: Account, taken: TakenCredit, nowMs: number): Promise<string> {
  const { amountNanoUsd, description, requestId, reversesId = null, lotId = null } = taken;
  await giveDueCredit(sql, [account], nowMs);
  const funds = await lockFunds(sql, [account.tenantId], { nowMs });
  const own = funds.get(account.tenantId)!;
  const owedNanoUsd = larger(amountNanoUsd - own.creditNanoUsd, 0n);
  if (owedNanoUsd > 0n && !taken.allowNegativeBalance) {
    const left = `The organization has only ${usdText(own.creditNanoUsd)} USD of credit left, less than this would take.`;
    throw gatewayError(ErrorReason.CONFLICT, `${left} Allow a negative balance, and it owes the rest.`);
  }
  if (account.balances.overdraft + owedNanoUsd > amountMax)
    throw gatewayError(ErrorReason.CONFLICT, 'The account of the organization cannot be that far below zero.');
  const posting = {
    ...postingDefaults,
    type: TransactionType.ADJUSTMENT,
    amountNanoUsd: -amountNanoUsd,
    description,
    requestId,
    reversesId,
    entries: [
      ...own.drawLots(amountNanoUsd, lotId),
      ...(owedNanoUsd > 0n ? [{ account: 'overdraft' as const, itemId: null, amountNanoUsd: owedNanoUsd }] : []),
      { account: taken.to ?? ('grantedCredit' as const), itemId: null, amountNanoUsd: -amountNanoUsd },
    ],
  };
  const [id] = await post(sql, [{ account, postings: [posting] }], nowMs);
  await saveFunds(sql, funds);
  return id!;
}
