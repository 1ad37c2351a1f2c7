import { sessionCaller } from '#shared/rpc/caller.ts';
import { organizationMessage } from '../db/organization.message.ts';
import { getOrganizationRow } from '../db/organization.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

/** The caller's own organization. */
export const getOrganization =
  ({ database }: Pick<AuthDeps, 'database'>): AuthRpc<'getOrganization'> =>
  async (_request, context) => {
    const { tenantId } = sessionCaller(context);
    return { organization: organizationMessage(await getOrganizationRow(database.em(), tenantId)) };
  };
