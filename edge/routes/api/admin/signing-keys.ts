import { type Static, Type } from 'typebox';
import { type SigningKey, SigningKeyStatus } from '#gen/modelgateway/auth/v1/signing_key_pb.ts';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { idempotencyKey } from '../../../http/idempotency-key.ts';
import { isoTime, pageOf, pageOfItems, pageQuerySchema } from '../../../http/json.ts';
import { nullable, orNull } from '../../../http/nullable.ts';
import { spelling } from '../../../http/spelling.ts';

const statuses = spelling({
  next: SigningKeyStatus.NEXT,
  active: SigningKeyStatus.ACTIVE,
  retiring: SigningKeyStatus.RETIRING,
});

const signingKeySchema = Type.Object(
  {
    kid: Type.String({ description: 'The `kid` in the header of the tokens that it signs.' }),
    status: statuses.schema,
    activated_at: Type.String({ format: 'date-time', description: 'When it started, or will start, to sign.' }),
    expires_at: orNull(
      Type.String({
        format: 'date-time',
        description: 'From then on tokens that it signed are refused; null while it signs.',
      }),
    ),
  },
  { $id: 'SigningKey' },
);
export const signingKeyJson = (key: SigningKey): Static<typeof signingKeySchema> => ({
  kid: key.kid,
  status: statuses.name(key.status),
  activated_at: isoTime(key.activatedAt!),
  expires_at: isoTime(key.expiresAt),
});

export const signingKeysSchema = Type.Object({ data: Type.Array(signingKeySchema) });

/** How long a rotation may take, in milliseconds: with a compromised key all sessions end, for which Auth takes up to a minute. */
export const rotationTimeoutMs = 90_000;

/** The keys that sign session tokens, or still verify old ones, and the rotation of the signing one; for operators. */
export const adminSigningKeyRoutes: Routes = (app, { auth }) => {
  app.get(
    '/api/v1/admin/signing-keys',
    {
      config: operatorOnly,
      schema: {
        summary: 'List signing keys',
        description: 'Oldest first: the next one is the last.',
        response: { 200: pageOf(signingKeySchema) },
        querystring: Type.Object(pageQuerySchema),
      },
    },
    async (request) => {
      const { signingKeys } = await auth.getSigningKeys({}, asCaller(request));
      return pageOfItems(signingKeys, signingKeyJson, request.query);
    },
  );

  app.post(
    '/api/v1/admin/signing-keys/rotate',
    {
      config: operatorOnly,
      schema: {
        summary: 'Rotate the signing key',
        description:
          'The new key signs once every process knows it; tokens signed with the old one stay valid. With `compromised`, no older key is accepted any more, so every session ends at once. A key from JWT_PRIVATE_KEY is replaced there: then `compromised` ends the one before it, within a day.',
        idempotent: true,
        response: { 200: signingKeysSchema },
        body: nullable(onlyFields({ compromised: Type.Optional(Type.Boolean()) })),
      },
    },
    async (request) => {
      const { signingKeys } = await auth.rotateSigningKey(
        { compromised: request.body?.compromised, idempotencyKey: idempotencyKey(request) },
        { ...asCaller(request), timeoutMs: rotationTimeoutMs },
      );
      return { data: signingKeys.map(signingKeyJson) };
    },
  );
};
