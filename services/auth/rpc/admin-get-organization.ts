import { operatorCaller } from '#shared/rpc/caller.ts';
import { organizationMessage } from '../db/organization.message.ts';
import { getOrganizationRow } from '../db/organization.repository.ts';
import { UserEntity } from '../db/user.entity.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

/** Any organization. */
export const adminGetOrganization =
  ({ database }: Pick<AuthDeps, 'database'>): AuthRpc<'adminGetOrganization'> =>
  async ({ tenantId }, context) => {
    operatorCaller(context);
    const em = database.em();
    return {
      organization: organizationMessage(await getOrganizationRow(em, tenantId)),
      memberCount: await em.count(UserEntity, { tenantId }),
    };
  };
