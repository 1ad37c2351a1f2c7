import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { uuidv7 } from '#shared/ids.ts';
import { type AuditActor, recordAudit } from '../audit.ts';
import { OrganizationEntity, type OrganizationRow } from '../db/organization.entity.ts';
import type { AuthDeps } from '../deps.ts';

/** Makes an organization, in the transaction of the call. */
export async function makeOrganization(
  em: SqlEntityManager,
  name: string,
  actor: AuditActor,
  { clock }: Pick<AuthDeps, 'clock'>,
): Promise<OrganizationRow> {
  const organization = em.create(OrganizationEntity, { id: uuidv7(), name, createdAt: new Date(clock.now()) });
  await em.flush();
  await recordAudit(em, clock, {
    tenantId: organization.id,
    type: 'organization_created',
    actor,
    target: { type: 'organization', id: organization.id },
    after: { name },
  });
  return organization;
}
