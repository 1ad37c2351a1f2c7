import type { Organization } from '#gen/modelgateway/auth/v1/organization_pb.ts';
import { transaction } from '#shared/db/transaction.ts';
import { currentVersion } from '#shared/leased-feed/versions.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import { actorOf, recordAudit } from '../audit.ts';
import { organizationMessage } from '../db/organization.message.ts';
import { lockOrganization } from '../db/organization.repository.ts';
import type { AuthDeps } from '../deps.ts';
import { announce } from '../feed/announce.ts';
import { forgetAfterMs, recordChange } from '../feed/changes.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'feed' | 'keyRefreshes'>;

/**
 * Suspends an organization, or restores it with `reason` null. Resolves once every live edge goes by that. A state that was already set is
 * announced again, in case an earlier call failed on the way.
 */
export async function setSuspended(
  deps: Deps,
  caller: Caller,
  tenantId: string,
  reason: string | null,
): Promise<Organization> {
  const { database, clock, keyRefreshes } = deps;
  const suspend = reason !== null;
  const { organization, version } = await transaction(database, async (em) => {
    const found = await lockOrganization(em, tenantId);
    if ((found.suspendedAt != null) === suspend) return { organization: found, version: await currentVersion(em) };
    const before = { status: suspend ? 'active' : 'suspended' };
    const after = { status: suspend ? 'suspended' : 'active', ...(suspend && { reason }) };
    found.suspendedAt = suspend ? new Date(clock.now()) : null;
    found.suspensionReason = reason ?? '';
    await em.flush();
    await recordAudit(em, clock, {
      tenantId,
      type: suspend ? 'organization_suspended' : 'organization_restored',
      actor: actorOf(caller, true),
      target: { type: 'organization', id: tenantId },
      before,
      after,
    });
    const change = { kind: 'tenant', subjectId: tenantId } as const;
    const recorded = await recordChange(em, { ...change, forgetAfterMs: forgetAfterMs(clock.now()) });
    await keyRefreshes.record(em, { ...change, version: recorded });
    return { organization: found, version: recorded };
  });
  await announce(version, deps);
  return organizationMessage(organization);
}
