import { Type } from 'typebox';
import { SigningKeyStatus } from '#gen/modelgateway/auth/v1/signing_key_pb.ts';
import { callerContext } from '#shared/rpc/caller.ts';
import { callerOfRequest } from '../../../caller.ts';
import { isoTime } from '../../../http/json.ts';
import { idempotencyKey, type Routes } from '../../routes.ts';

/** Replacing the key that signs session tokens, for operators. */
export const adminSigningKeyRoutes: Routes = (app, { auth }) => {
  app.post(
    '/api/v1/admin/signing-keys/rotate',
    {
      config: { access: { surface: 'operator' } },
      schema: {
        body: Type.Optional(
          Type.Union([
            Type.Object({ compromised: Type.Optional(Type.Boolean()) }, { additionalProperties: false }),
            Type.Null(),
          ]),
        ),
      },
    },
    async (request) => {
      const { signingKeys } = await auth.rotateSigningKey(
        { compromised: request.body?.compromised ?? false, idempotencyKey: idempotencyKey(request) },
        { contextValues: callerContext(callerOfRequest(request)) },
      );
      const data = signingKeys.map((key) => ({
        kid: key.kid,
        status: statusNames.get(key.status) ?? 'next',
        activated_at: isoTime(key.activatedAt),
        expires_at: isoTime(key.expiresAt),
      }));
      return { data };
    },
  );
};

const statusNames: ReadonlyMap<SigningKeyStatus, string> = new Map([
  [SigningKeyStatus.NEXT, 'next'],
  [SigningKeyStatus.ACTIVE, 'active'],
  [SigningKeyStatus.RETIRING, 'retiring'],
]);
