import { create } from '@bufbuild/protobuf';
import {
  OrganizationRateLimitsSchema,
  type RateLimitSnapshot,
  RateLimitSnapshotSchema,
} from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { Sql } from '#shared/db/sql.ts';
import { defaultRateLimits, type RateLimits } from '#shared/rate-limits.ts';
import { defaultPlanCode } from '../domain/plan-default.ts';

type Columns = { requests_per_minute: bigint; tokens_per_minute: bigint; concurrent_requests: bigint };

const limits = (row: Columns): RateLimits => ({
  requestsPerMinute: Number(row.requests_per_minute),
  tokensPerMinute: Number(row.tokens_per_minute),
  concurrentRequests: Number(row.concurrent_requests),
});

/** Each limit separately: the organization's, else its plan's, else the platform's (decisions.md, Inference). */
const effectiveColumn = (name: keyof Columns, platform: number): string =>
  `coalesce(nullif(accounts.${name}, 0), nullif(plans.${name}, 0), ${platform}) as ${name}`;

const effectiveColumns = [
  effectiveColumn('requests_per_minute', defaultRateLimits.requestsPerMinute),
  effectiveColumn('tokens_per_minute', defaultRateLimits.tokensPerMinute),
  effectiveColumn('concurrent_requests', defaultRateLimits.concurrentRequests),
].join(', ');

const planOfAccount = `plans.code = coalesce(accounts.plan_code, '${defaultPlanCode}')`;

/** The limits of those of an organization's keys and users that have none of their own. */
export async function effectiveRateLimits(sql: Sql, tenantId: string): Promise<RateLimits> {
  const { rows } = await sql.query<Columns>({
    name: 'effective-rate-limits',
    text: `
      select ${effectiveColumns} from (select $1::uuid as tenant_id) as tenant
      left join accounts using (tenant_id) join plans on ${planOfAccount}`,
    values: [tenantId],
  });
  return limits(rows[0]!);
}

/** The organization's own limits; 0: the plan's. */
export async function ownRateLimits(sql: Sql, tenantId: string): Promise<RateLimits> {
  const { rows } = await sql.query<Columns>({
    name: 'own-rate-limits',
    text: 'select requests_per_minute, tokens_per_minute, concurrent_requests from accounts where tenant_id = $1',
    values: [tenantId],
  });
  return rows[0] === undefined ? { requestsPerMinute: 0, tokensPerMinute: 0, concurrentRequests: 0 } : limits(rows[0]);
}

/** All limits in one statement, hence from one moment. Organizations with nothing special are not listed. */
export async function readRateLimits(sql: Sql): Promise<RateLimitSnapshot> {
  const { rows } = await sql.query<Columns & { tenant_id: string | null }>({
    name: 'read-rate-limits',
    text: `
      select null as tenant_id, ${effectiveColumns} from plans left join accounts on false
        where plans.code = '${defaultPlanCode}'
      union all
      select accounts.tenant_id, ${effectiveColumns} from accounts join plans on ${planOfAccount}
        where plans.code <> '${defaultPlanCode}' or accounts.requests_per_minute > 0 or accounts.tokens_per_minute > 0
          or accounts.concurrent_requests > 0`,
    values: [],
  });
  const standard = rows.find((row) => row.tenant_id === null)!;
  return create(RateLimitSnapshotSchema, {
    defaultLimits: limits(standard),
    organizations: rows
      .filter((row) => row.tenant_id !== null)
      .map((row) => create(OrganizationRateLimitsSchema, { tenantId: row.tenant_id!, limits: limits(row) })),
  });
}
