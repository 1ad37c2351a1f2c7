import { defineEntity, type InferEntity, p } from '@mikro-orm/postgresql';
import type { KeyType } from '#gen/modelgateway/keys/v1/key_pb.ts';

export const KeyEntity = defineEntity({
  name: 'Key',
  tableName: 'keys',
  properties: {
    tenantId: p.uuid().primary(),
    id: p.uuid().primary(),
    userId: p.uuid(),
    name: p.text(),
    keyType: p.smallint().$type<KeyType>(),
    preview: p.text(),
    scopes: p.array().$type<string[]>(),
    modelAllowlist: p.array().$type<string[]>().default([]),
    ipAllowlist: p.array().$type<string[]>().default([]),
    spendCapNanoUsd: p.bigint('bigint').strictNullable(),
    requestsPerMinute: p.bigint('number').default(0),
    tokensPerMinute: p.bigint('number').default(0),
    concurrentRequests: p.bigint('number').default(0),
    createdAt: p.datetime(),
    /** When the present secret replaced an earlier one. */
    rotatedAt: p.datetime().strictNullable(),
    expiresAt: p.datetime().strictNullable(),
    revokedAt: p.datetime().strictNullable(),
    deletedAt: p.datetime().strictNullable(),
    lastUsedAt: p.datetime().strictNullable(),
    usageCount: p.bigint('bigint').default(0),
  },
});

export type KeyRow = InferEntity<typeof KeyEntity>;
