import { LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import type { Sql } from '#shared/db/sql.ts';
import { charged } from '../domain/lease.ts';
import { lockRowsOf } from './budget.ts';
import { changeLeases, lockLeases, readLeases } from './lease-row.ts';

/**
 * Frees an organization's holds for a call that will not be charged, with what it is known to have used, which would wait a week for its
 * charge. The organization is locked.
 */
export async function freeHolds(sql: Sql, tenantId: string, leaseIds: readonly string[]): Promise<void> {
  const holds = (await readLeases(sql, leaseIds)).filter((lease) => lease.tenantId === tenantId && lease.central);
  if (holds.length === 0) return;
  await lockRowsOf(sql, holds);
  const locked = await lockLeases(
    sql,
    holds.map(({ id }) => id),
  );
  await changeLeases(
    sql,
    locked.map((before) => {
      const state = before.state === LeaseState.HELD ? LeaseState.CLOSED : before.state;
      return { before, after: { ...charged(before, 0n), state } };
    }),
  );
}
