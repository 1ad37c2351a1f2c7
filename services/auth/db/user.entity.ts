import { defineEntity, type InferEntity, p } from '@mikro-orm/postgresql';
import type { Role } from '#shared/rpc/caller.ts';

export const UserEntity = defineEntity({
  name: 'User',
  tableName: 'users',
  properties: {
    id: p.uuid().primary(),
    tenantId: p.uuid(),
    /** In lower case; no two active users have the same. */
    email: p.text(),
    firstName: p.text(),
    lastName: p.text(),
    phone: p.text().default(''),
    role: p.smallint().$type<Role>(),
    isActive: p.boolean().default(true),
    emailVerified: p.boolean().default(false),
    onboardingCompleted: p.boolean().default(false),
    operator: p.boolean().default(false),
    passwordHash: p.text(),
    /** Access tokens with an earlier `iat` are refused; a whole second, like `iat`. */
    tokensNotBefore: p.datetime(),
    createdAt: p.datetime(),
    lastLoginAt: p.datetime().nullable(),
  },
});

export type UserRow = InferEntity<typeof UserEntity>;
