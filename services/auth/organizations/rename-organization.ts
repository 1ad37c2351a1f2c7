import { transactionInTurn } from '#shared/db/transaction.ts';
import { requiredName } from '#shared/safe-text.ts';
import { recordAudit } from '../audit.ts';
import { type Author, judgeAgain } from '../current-caller.ts';
import type { OrganizationRow } from '../db/organization.entity.ts';
import { lockOrganization } from '../db/organization.repository.ts';
import type { AuthDeps } from '../deps.ts';

/** Renames an organization, unless no name is given. */
export function renameOrganization(
  { database, clock }: Pick<AuthDeps, 'database' | 'clock'>,
  by: Author,
  tenantId: string,
  name: string | undefined,
): Promise<OrganizationRow> {
  return transactionInTurn(database, { tenantId, signal: by.signal }, async (em) => {
    const organization = await lockOrganization(em, tenantId);
    await judgeAgain(em, by);
    const next = name === undefined ? organization.name : requiredName(name, 'name');
    if (next === organization.name) return organization;
    const before = { name: organization.name };
    organization.name = next;
    await em.flush();
    await recordAudit(em, clock, {
      tenantId,
      type: 'organization_updated',
      actor: by.actor,
      target: { type: 'organization', id: tenantId },
      before,
      after: { name: next },
    });
    return organization;
  });
}
