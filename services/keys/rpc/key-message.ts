import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { KeySchema } from '#gen/modelgateway/keys/v1/key_pb.ts';
import type { UpdateKeyRequestSchema } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { timestampOrUnset } from '#shared/db/timestamp.ts';
import { usdJson } from '#shared/money.ts';
import type { PublicName, WholeMessage } from '#shared/whole-message.ts';
import type { KeyRow } from '../db/key.entity.ts';
import { constraintsMessage } from '../domain/constraints.ts';
import { statusAt } from '../domain/key-lifecycle.ts';
import { keyTypeName } from '../domain/key-scopes.ts';

/** A key as its owner and operators see it at a moment. */
export const keyMessage = (key: KeyRow, nowMs: number): WholeMessage<typeof KeySchema> => ({
  id: key.id,
  tenantId: key.tenantId,
  userId: key.userId,
  name: key.name,
  keyType: key.keyType,
  keyPreview: key.preview,
  scopes: key.scopes,
  constraints: constraintsMessage(key),
  createdAt: timestampFromDate(key.createdAt),
  rotatedAt: timestampOrUnset(key.rotatedAt),
  expiresAt: timestampOrUnset(key.expiresAt),
  lastUsedAt: timestampOrUnset(key.lastUsedAt),
  usageCount: key.usageCount,
  status: statusAt(key, nowMs),
  revokedAt: timestampOrUnset(key.revokedAt),
  rateLimits: {
    requestsPerMinute: key.requestsPerMinute,
    tokensPerMinute: key.tokensPerMinute,
    concurrentRequests: key.concurrentRequests,
  },
});

/** What the owner of a key can change. */
export type ChangeableField = Exclude<keyof WholeMessage<typeof UpdateKeyRequestSchema>, 'keyId' | 'updateMask'>;

type AuditedField = PublicName<ChangeableField> | 'key_type' | 'key_preview';

/** The fields of a key that audit events show, spelled as in the public API. An update of anything else would count as none. */
export const auditedFields = (key: KeyRow): Record<AuditedField, unknown> => ({
  name: key.name,
  key_type: keyTypeName(key.keyType),
  key_preview: key.preview,
  scopes: key.scopes,
  expires_at: key.expiresAt?.toISOString() ?? null,
  model_allowlist: key.modelAllowlist.length === 0 ? null : key.modelAllowlist,
  ip_allowlist: key.ipAllowlist.length === 0 ? null : key.ipAllowlist,
  spend_cap_usd: key.spendCapNanoUsd === null ? null : usdJson(key.spendCapNanoUsd),
});
