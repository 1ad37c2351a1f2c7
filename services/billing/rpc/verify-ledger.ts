import { IsolationLevel } from '@mikro-orm/postgresql';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { CallerKind, callerOf, requireOperator } from '#shared/rpc/caller.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { verifyLedgerOf } from '../ledger/verify.ts';

/** How long one of the verification's statements may run: it reads the whole ledger. */
const statementTimeoutMs = 600_000;

export const verifyLedger =
  ({ database }: Pick<BillingDeps, 'database'>): BillingRpc<'verifyLedger'> =>
  ({ tenantId }, context) => {
    const caller = callerOf(context);
    if (caller.kind !== CallerKind.SERVICE) requireOperator(caller);
    return sqlTransaction(
      database,
      async (sql) => {
        await sql.query(`set local statement_timeout = ${statementTimeoutMs}`);
        return verifyLedgerOf(sql, tenantId === '' ? null : tenantId);
      },
      { isolationLevel: IsolationLevel.REPEATABLE_READ },
    );
  };
