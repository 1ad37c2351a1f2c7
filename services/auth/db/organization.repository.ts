import { raw, type SqlEntityManager } from '@mikro-orm/postgresql';
import { OrganizationStatus } from '#gen/modelgateway/auth/v1/organization_pb.ts';
import { plainArray } from '#shared/db/sql.ts';
import { containing } from '#shared/db/text-search.ts';
import { notFound } from '#shared/errors.ts';
import { isUuid } from '#shared/ids.ts';
import type { PageRows } from '#shared/page.ts';
import { lockRow } from './locks.ts';
import { OrganizationEntity, type OrganizationRow } from './organization.entity.ts';

/** An organization. Fails with NOT_FOUND. */
export async function getOrganizationRow(em: SqlEntityManager, id: string): Promise<OrganizationRow> {
  const organization = await em.findOne(OrganizationEntity, { id });
  if (organization === null) throw notFound('organization');
  return organization;
}

/** An organization, locked until the transaction ends. Fails with NOT_FOUND. */
export async function lockOrganization(em: SqlEntityManager, id: string): Promise<OrganizationRow> {
  const organization = await lockRow(em, OrganizationEntity, { id });
  if (organization === null) throw notFound('organization');
  return organization;
}

/**
 * One page of all organizations, newest first, or of certain ones in the order of their ids: those whose id is the search text, or whose name
 * contains it.
 */
export function pageOfOrganizations(
  em: SqlEntityManager,
  filter: { status: OrganizationStatus; search: string; tenantIds: string[] },
  { limit, offset }: PageRows,
): Promise<[OrganizationRow[], number]> {
  const orderBy =
    filter.tenantIds.length === 0
      ? ({ id: 'desc' } as const)
      : { [raw('array_position(?::uuid[], id)', [plainArray(filter.tenantIds)])]: 'asc' as const };
  return em.findAndCount(
    OrganizationEntity,
    {
      ...(filter.tenantIds.length > 0 && { id: { $in: filter.tenantIds } }),
      ...(filter.status === OrganizationStatus.ACTIVE && { suspendedAt: null }),
      ...(filter.status === OrganizationStatus.SUSPENDED && { suspendedAt: { $ne: null } }),
      ...(filter.search !== '' && {
        $or: [
          { name: { $ilike: containing(filter.search) } },
          ...(isUuid(filter.search) ? [{ id: filter.search }] : []),
        ],
      }),
    },
    { orderBy, limit, offset },
  );
}
