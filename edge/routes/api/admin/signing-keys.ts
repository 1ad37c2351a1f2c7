import { Type } from 'typebox';
import { type SigningKey, SigningKeyStatus } from '#gen/modelgateway/auth/v1/signing_key_pb.ts';
import { operatorOnly } from '../../../access.ts';
import { asCaller } from '../../../caller.ts';
import { isoTime } from '../../../http/json.ts';
import { nullable } from '../../../http/nullable.ts';
import { spelling } from '../../../http/spelling.ts';
import { idempotencyKey, type Routes } from '../../routes.ts';

const statuses = spelling({
  next: SigningKeyStatus.NEXT,
  active: SigningKeyStatus.ACTIVE,
  retiring: SigningKeyStatus.RETIRING,
});

const signingKeyJson = (key: SigningKey) => ({
  kid: key.kid,
  status: statuses.name(key.status),
  activated_at: isoTime(key.activatedAt),
  expires_at: isoTime(key.expiresAt),
});

/** The keys that sign session tokens, or verify what they signed, and replacing the one that signs; for operators. */
export const adminSigningKeyRoutes: Routes = (app, { auth }) => {
  app.get('/api/v1/admin/signing-keys', { config: operatorOnly }, async (request) => {
    const { signingKeys } = await auth.getSigningKeys({}, asCaller(request));
    return { data: signingKeys.map(signingKeyJson) };
  });

  app.post(
    '/api/v1/admin/signing-keys/rotate',
    {
      config: operatorOnly,
      schema: {
        body: nullable(Type.Object({ compromised: Type.Optional(Type.Boolean()) }, { additionalProperties: false })),
      },
    },
    async (request) => {
      const { signingKeys } = await auth.rotateSigningKey(
        { compromised: request.body?.compromised ?? false, idempotencyKey: idempotencyKey(request) },
        asCaller(request),
      );
      return { data: signingKeys.map(signingKeyJson) };
    },
  );
};
