import { callerOf, requireService } from '#shared/rpc/caller.ts';
import { OrganizationEntity } from '../db/organization.entity.ts';
import { organizationMessage } from '../db/organization.message.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

/** Organizations, for services. */
export const getTenants =
  ({ database }: Pick<AuthDeps, 'database'>): AuthRpc<'getTenants'> =>
  async (request, context) => {
    requireService(callerOf(context));
    const rows = await database.em().find(OrganizationEntity, { id: { $in: request.tenantIds } });
    return { organizations: rows.map(organizationMessage) };
  };
