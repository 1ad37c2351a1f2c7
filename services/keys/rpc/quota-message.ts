import type { MessageInitShape } from '@bufbuild/protobuf';
import type { KeyQuotaSchema } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import type { StoredQuota } from '../domain/key-quota.ts';

export function quotaMessage(quota: StoredQuota): MessageInitShape<typeof KeyQuotaSchema> {
  if (quota === undefined) return { quota: { case: 'platformDefault', value: true } };
  if (quota === null) return { quota: { case: 'unlimited', value: true } };
  return { quota: { case: 'keysPerUser', value: quota } };
}

/** As audit events show it. */
export const quotaText = (quota: StoredQuota): number | string =>
  quota === undefined ? 'default' : (quota ?? 'unlimited');
