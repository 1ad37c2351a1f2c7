import { operatorCaller } from '#shared/rpc/caller.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { setSuspended } from '../organizations/suspension.ts';

/** From now on an organization's inference, jobs and realtime are refused. */
export const suspendOrganization =
  (deps: Pick<AuthDeps, 'database' | 'clock' | 'feed' | 'keyRefreshes'>): AuthRpc<'suspendOrganization'> =>
  async (request, context) => {
    const caller = operatorCaller(context);
    return { organization: await setSuspended(deps, caller, request.tenantId, request.reason) };
  };
