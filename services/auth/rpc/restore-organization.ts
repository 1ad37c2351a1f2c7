import { operatorCaller } from '#shared/rpc/caller.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { setSuspended } from '../organizations/suspension.ts';

/** Ends an organization's suspension. */
export const restoreOrganization =
  (deps: Pick<AuthDeps, 'database' | 'clock' | 'feed' | 'keyRefreshes'>): AuthRpc<'restoreOrganization'> =>
  async (request, context) => {
    const caller = operatorCaller(context);
    return { organization: await setSuspended(deps, caller, request.tenantId, null) };
  };
