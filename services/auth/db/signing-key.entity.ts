import { defineEntity, type InferEntity, p } from '@mikro-orm/postgresql';
import type { SigningKeyStatus } from '#gen/modelgateway/auth/v1/signing_key_pb.ts';

export const SigningKeyEntity = defineEntity({
  name: 'SigningKey',
  tableName: 'signing_keys',
  properties: {
    kid: p.text().primary(),
    publicKey: p.blob(),
    /** Null: the key is JWT_PRIVATE_KEY, which is not stored here. */
    sealedPrivateKey: p.blob().nullable(),
    status: p.smallint().$type<SigningKeyStatus>(),
    activatedAt: p.datetime(),
    expiresAt: p.datetime().nullable(),
  },
});

export type SigningKeyRow = InferEntity<typeof SigningKeyEntity>;
