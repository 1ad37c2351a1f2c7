import { LockMode, type SqlEntityManager } from '@mikro-orm/postgresql';
import { notFound } from '#shared/errors.ts';
import { OrganizationEntity, type OrganizationRow } from './organization.entity.ts';

/** An organization. Fails with NOT_FOUND. */
export async function getOrganizationRow(em: SqlEntityManager, id: string): Promise<OrganizationRow> {
  const organization = await em.findOne(OrganizationEntity, { id });
  if (organization === null) throw notFound('organization');
  return organization;
}

/** An organization, locked until the transaction ends. Fails with NOT_FOUND. */
export async function lockOrganization(em: SqlEntityManager, id: string): Promise<OrganizationRow> {
  const organization = await em.findOne(OrganizationEntity, { id }, { lockMode: LockMode.PESSIMISTIC_WRITE });
  if (organization === null) throw notFound('organization');
  return organization;
}
