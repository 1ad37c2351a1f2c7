import { defineEntity, type InferEntity, p } from '@mikro-orm/postgresql';

export const DigestEntity = defineEntity({
  name: 'Digest',
  tableName: 'digests',
  properties: {
    tenantId: p.uuid().primary(),
    digest: p.blob().primary(),
    keyId: p.uuid(),
    pepperVersion: p.integer(),
    createdAt: p.datetime(),
    /** The end of a rotated secret's grace period; null: valid as long as the key. */
    expiresAt: p.datetime().strictNullable(),
    /** What a rotated secret was called; null: as its key. */
    preview: p.text().strictNullable(),
  },
});

export type DigestRow = InferEntity<typeof DigestEntity>;
