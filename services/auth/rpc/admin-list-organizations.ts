import { pageInfo, pageRows } from '#shared/page.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { organizationMessage } from '../db/organization.message.ts';
import { pageOfOrganizations } from '../db/organization.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

/** All organizations. */
export const adminListOrganizations =
  ({ database }: Pick<AuthDeps, 'database'>): AuthRpc<'adminListOrganizations'> =>
  async (request, context) => {
    operatorCaller(context);
    const rows = pageRows(request.page);
    const [organizations, total] = await pageOfOrganizations(database.em(), request, rows);
    return { organizations: organizations.map(organizationMessage), page: pageInfo(rows, total) };
  };
