import type { ServiceImpl } from '@connectrpc/connect';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import type { KeysDeps } from './deps.ts';
import { authenticate } from './rpc/authenticate.ts';
import { createKey } from './rpc/create-key.ts';
import { deleteKey } from './rpc/delete-key.ts';
import { getKey } from './rpc/get-key.ts';
import { listKeys } from './rpc/list-keys.ts';

/** API keys, their digests and quota, and the feed by which edges decide without asking. start.ts makes its dependencies. */
export function keysService(deps: KeysDeps): Partial<ServiceImpl<typeof KeysService>> {
  return {
    createKey: createKey(deps),
    listKeys: listKeys(deps),
    getKey: getKey(deps),
    deleteKey: deleteKey(deps),

    authenticate: authenticate(deps),
  };
}
