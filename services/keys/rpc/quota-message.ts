import type { MessageInitShape } from '@bufbuild/protobuf';
import type { KeyQuotaSchema } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';

/** A quota as it is stored: undefined is the platform's default, null is unlimited. */
export type StoredQuota = number | null | undefined;

export function quotaMessage(quota: StoredQuota): MessageInitShape<typeof KeyQuotaSchema> {
  if (quota === undefined) return { quota: { case: 'platformDefault', value: true } };
  if (quota === null) return { quota: { case: 'unlimited', value: true } };
  return { quota: { case: 'keysPerUser', value: quota } };
}

/** As audit events show it. */
export const quotaText = (quota: StoredQuota): number | string =>
  quota === undefined ? 'default' : (quota ?? 'unlimited');
