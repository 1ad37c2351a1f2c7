import { IsolationLevel } from '@mikro-orm/postgresql';
import type { PoolClient } from 'pg';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { invalidRequest } from '#shared/errors.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { type EventRow, storedEvent } from '../db/audit.repository.ts';
import { getOrganizationRow } from '../db/organization.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { ChainCheck, type ChainPlace, platformChain } from '../domain/audit-chain.ts';

/** How many events are read at a time. */
const batch = 1_000;

/** The most events that one call verifies: a second's work, far within its deadline. */
const callEventsMax = 20_000;

/** Recomputes a chain from its first event, or a part of it; if there is more than one call can verify, says where to continue. */
export const verifyAuditChain =
  ({ database }: Pick<AuthDeps, 'database'>): AuthRpc<'verifyAuditChain'> =>
  async (request, context) => {
    operatorCaller(context);
    const tenantId = request.tenantId || platformChain;
    // Otherwise an organization that does not exist would be found sound.
    if (tenantId !== platformChain) await getOrganizationRow(database.em(), tenantId);
    const eventsMax = Math.min(request.eventsMax || callEventsMax, callEventsMax);
    // One snapshot, so that an event appended meanwhile does not look like a break.
    return sqlTransaction(
      database,
      async (client) => {
        const check = new ChainCheck(await placeOf(client, tenantId, request.afterSequence));
        let checked = 0;
        let last = request.afterSequence;
        while (checked < eventsMax) {
          // After the deadline nobody waits for the result.
          context.signal.throwIfAborted();
          const wanted = Math.min(batch, eventsMax - checked);
          const { rows } = await client.query<EventRow>({
            name: 'auth-audit-chain',
            text: 'select * from audit_events where tenant_id = $1 and sequence > $2 order by sequence limit $3',
            values: [tenantId, last, wanted],
          });
          for (const row of rows) check.add(storedEvent(row));
          checked += rows.length;
          last = rows.at(-1)?.sequence ?? last;
          if (rows.length < wanted) {
            const firstBrokenSequence = check.end(await headOf(client, tenantId));
            return { eventsChecked: BigInt(checked), firstBrokenSequence };
          }
        }
        const firstBrokenSequence = check.firstBroken;
        return {
          eventsChecked: BigInt(checked),
          firstBrokenSequence,
          nextAfterSequence: firstBrokenSequence === undefined ? last : undefined,
        };
      },
      { isolationLevel: IsolationLevel.REPEATABLE_READ },
    );
  };

/** The event after which to begin. @throws INVALID_REQUEST */
async function placeOf(client: PoolClient, tenantId: string, sequence: bigint): Promise<ChainPlace | undefined> {
  if (sequence === 0n) return undefined;
  const { rows } = await client.query<ChainPlace>(
    'select sequence, hash from audit_events where tenant_id = $1 and sequence = $2',
    [tenantId, sequence],
  );
  if (rows[0] === undefined) {
    throw invalidRequest('after_sequence', 'The chain has no event with this sequence number.', 'invalid_value');
  }
  return rows[0];
}

async function headOf(client: PoolClient, tenantId: string): Promise<ChainPlace | undefined> {
  const { rows } = await client.query<ChainPlace>('select sequence, hash from audit_heads where tenant_id = $1', [
    tenantId,
  ]);
  return rows[0];
}
