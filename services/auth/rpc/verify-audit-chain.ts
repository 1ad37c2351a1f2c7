import { IsolationLevel } from '@mikro-orm/postgresql';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { type EventRow, storedEvent } from '../db/audit.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { ChainCheck, platformChain } from '../domain/audit-chain.ts';

const batch = 1_000;

/** Recomputes a chain from its first event. */
export const verifyAuditChain =
  ({ database }: Pick<AuthDeps, 'database'>): AuthRpc<'verifyAuditChain'> =>
  async (request, context) => {
    operatorCaller(context);
    const tenantId = request.tenantId || platformChain;
    // One snapshot, so that an event which is appended meanwhile does not look like a break.
    return sqlTransaction(
      database,
      async (client) => {
        const check = new ChainCheck();
        let checked = 0n;
        let last = 0n;
        for (;;) {
          const { rows } = await client.query<EventRow>({
            name: 'auth-audit-chain',
            text: `select * from audit_events where tenant_id = $1 and sequence > $2 order by sequence limit ${batch}`,
            values: [tenantId, last],
          });
          for (const row of rows) check.add(storedEvent(row));
          checked += BigInt(rows.length);
          if (rows.length < batch) break;
          last = rows.at(-1)!.sequence;
        }
        const heads = await client.query<{ sequence: bigint; hash: Buffer }>(
          'select sequence, hash from audit_heads where tenant_id = $1',
          [tenantId],
        );
        return { eventsChecked: checked, firstBrokenSequence: check.end(heads.rows[0]) };
      },
      { isolationLevel: IsolationLevel.REPEATABLE_READ },
    );
  };
