import { timestampDate } from '@bufbuild/protobuf/wkt';
import { KeyStatus } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { pageInfo, pageRows } from '#shared/page.ts';
import { sessionCaller } from '#shared/rpc/caller.ts';
import { countKeys, listKeys as findKeys } from '../db/key.repository.ts';
import { findQuota } from '../db/owners.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { effectiveQuota } from '../domain/key-quota.ts';
import { keyMessage } from './key-message.ts';

export const listKeys =
  ({ database, clock }: Pick<KeysDeps, 'database' | 'clock'>): KeysRpc<'listKeys'> =>
  async (request, context) => {
    const owner = sessionCaller(context);
    const { tenantId, userId } = owner;
    const { keyType, search, withSpendCap } = request;
    const expiresBefore = request.expiresBefore && timestampDate(request.expiresBefore);
    // Owners know only two statuses (service.md, API key: is_active), and must find a revoked key under one of them.
    const status = request.status === KeyStatus.EXPIRED ? 'ended' : request.status;
    const page = pageRows(request.page);
    const nowMs = clock.now();
    const [[keys, total], used, quota] = await Promise.all([
      findKeys(database.em(), { tenantId, userId, keyType, status, search, expiresBefore, withSpendCap }, page, nowMs),
      countKeys(database.em(), owner),
      findQuota(database.em(), tenantId),
    ]);
    const keysMax = effectiveQuota(quota);
    return {
      keys: keys.map((key) => keyMessage(key, nowMs)),
      page: pageInfo(page, total),
      keysUsed: BigInt(used),
      keysMax: keysMax === null ? undefined : BigInt(keysMax),
    };
  };
