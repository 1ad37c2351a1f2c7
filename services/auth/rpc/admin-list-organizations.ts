import { pageInfo, pageRows } from '#shared/page.ts';
import { callerOf, requireOperator } from '#shared/rpc/caller.ts';
import { organizationMessage } from '../db/organization.message.ts';
import { pageOfOrganizations } from '../db/organization.repository.ts';
import { read } from '../db/read.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

/** All organizations. */
export const adminListOrganizations =
  ({ database }: Pick<AuthDeps, 'database'>): AuthRpc<'adminListOrganizations'> =>
  async (request, context) => {
    requireOperator(callerOf(context));
    const rows = pageRows(request.page);
    const [organizations, total] = await read(database, (em) => pageOfOrganizations(em, request, rows));
    return { organizations: organizations.map(organizationMessage), page: pageInfo(rows, total) };
  };
