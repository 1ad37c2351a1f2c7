import type { ServiceImpl } from '@connectrpc/connect';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import type { KeysDeps } from './deps.ts';
import { acknowledgeKeys } from './rpc/acknowledge-keys.ts';
import { adminListKeys } from './rpc/admin-list-keys.ts';
import { authenticate } from './rpc/authenticate.ts';
import { createKey } from './rpc/create-key.ts';
import { deleteKey } from './rpc/delete-key.ts';
import { describeKeys } from './rpc/describe-keys.ts';
import { getKey } from './rpc/get-key.ts';
import { getKeyQuota } from './rpc/get-key-quota.ts';
import { getPrincipal } from './rpc/get-principal.ts';
import { listKeys } from './rpc/list-keys.ts';
import { listModelAllowlistUsers } from './rpc/list-model-allowlist-users.ts';
import { recordKeyUse } from './rpc/record-key-use.ts';
import { refreshPrincipals } from './rpc/refresh-principals.ts';
import { revokeKey } from './rpc/revoke-key.ts';
import { rotateKey } from './rpc/rotate-key.ts';
import { setKeyQuota } from './rpc/set-key-quota.ts';
import { setKeyRateLimits } from './rpc/set-key-rate-limits.ts';
import { updateKey } from './rpc/update-key.ts';
import { watchKeys } from './rpc/watch-keys.ts';

/** API keys, their digests and quotas, and the feed with which edges decide without asking. start.ts makes its dependencies. */
export function keysService(deps: KeysDeps): ServiceImpl<typeof KeysService> {
  return {
    // A user's own keys.
    createKey: createKey(deps),
    listKeys: listKeys(deps),
    getKey: getKey(deps),
    updateKey: updateKey(deps),
    rotateKey: rotateKey(deps),
    deleteKey: deleteKey(deps),

    // Platform operators.
    adminListKeys: adminListKeys(deps),
    revokeKey: revokeKey(deps),
    setKeyRateLimits: setKeyRateLimits(deps),
    getKeyQuota: getKeyQuota(deps),
    setKeyQuota: setKeyQuota(deps),

    // Edges.
    authenticate: authenticate(deps),
    watchKeys: watchKeys(deps),
    acknowledgeKeys: acknowledgeKeys(deps),
    recordKeyUse: recordKeyUse(deps),

    // Services.
    getPrincipal: getPrincipal(deps),
    refreshPrincipals: refreshPrincipals(deps),
    describeKeys: describeKeys(deps),
    listModelAllowlistUsers: listModelAllowlistUsers(deps),
  };
}
