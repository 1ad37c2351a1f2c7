import { notFound } from '#shared/errors.ts';
import { CallerKind, callerOf } from '#shared/rpc/caller.ts';
import { findQuota } from '../db/owners.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { effectiveQuota } from '../domain/key-quota.ts';
import { quotaMessage } from './quota-message.ts';

export const getKeyQuota =
  ({ database }: Pick<KeysDeps, 'database'>): KeysRpc<'getKeyQuota'> =>
  async ({ tenantId }, context) => {
    const caller = callerOf(context);
    const isMember = caller.kind === CallerKind.SESSION && caller.tenantId === tenantId;
    if (!caller.operator && !isMember) throw notFound('organization');
    const quota = await findQuota(database.em(), tenantId);
    return { quota: quotaMessage(quota), effectiveKeysPerUser: effectiveQuota(quota) ?? undefined };
  };
