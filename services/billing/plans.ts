import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { Sql } from '#shared/db/sql.ts';
import { PlanEntity, type PlanRow } from './db/entities.ts';
import { defaultPlanCode } from './domain/plan-default.ts';
import { readAccount } from './ledger/accounts.ts';

/** The plan of an organization: the one it was put on, or the default. */
export async function planOf(em: SqlEntityManager, sql: Sql, tenantId: string): Promise<PlanRow> {
  const { planCode } = await readAccount(sql, tenantId);
  return em.findOneOrFail(PlanEntity, { code: planCode ?? defaultPlanCode });
}
