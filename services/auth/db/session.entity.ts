import { defineEntity, type InferEntity, p } from '@mikro-orm/postgresql';

/** A login, and its family of refresh tokens: the row has only the hashes of the current one and its predecessor. */
export const SessionEntity = defineEntity({
  name: 'Session',
  tableName: 'sessions',
  properties: {
    tenantId: p.uuid().primary(),
    id: p.uuid().primary(),
    userId: p.uuid(),
    ip: p.text(),
    userAgent: p.text(),
    createdAt: p.datetime(),
    issuedAt: p.datetime(),
    kid: p.text(),
    accessTokenId: p.uuid(),
    refreshTokenId: p.uuid(),
    refreshTokenHash: p.blob(),
    previousRefreshTokenHash: p.blob().nullable(),
    rotatedAt: p.datetime().nullable(),
    expiresAt: p.datetime(),
    endedAt: p.datetime().nullable(),
  },
});

export type SessionRow = InferEntity<typeof SessionEntity>;
