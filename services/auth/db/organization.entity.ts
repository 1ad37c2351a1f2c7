import { defineEntity, type InferEntity, p } from '@mikro-orm/postgresql';

export const OrganizationEntity = defineEntity({
  name: 'Organization',
  tableName: 'organizations',
  properties: {
    id: p.uuid().primary(),
    name: p.text(),
    createdAt: p.datetime(),
    suspendedAt: p.datetime().nullable(),
    suspensionReason: p.text().default(''),
  },
});

export type OrganizationRow = InferEntity<typeof OrganizationEntity>;
