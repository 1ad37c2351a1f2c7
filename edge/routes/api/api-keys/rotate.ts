import { durationFromMs } from '@bufbuild/protobuf/wkt';
import { Type } from 'typebox';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { idempotencyKey } from '../../../http/idempotency-key.ts';
import { isoTime, isoTimeSchema } from '../../../http/json.ts';
import { noStore } from '../../../http/no-store.ts';
import { nullable, orNull } from '../../../http/nullable.ts';
import { budgetOf } from './key-budgets.ts';
import { keyIdInPath, keyIdParams } from './key-fields.ts';
import { newKeyJson, newKeySchema } from './key-json.ts';

/** 30 days (decisions.md, Keys). */
const gracePeriodSecondsMax = 2_592_000;

/** POST /api/v1/api-keys/{key_id}/rotate: a new secret; the old one is valid until the end of the grace period. */
export const keyRotationRoutes: Routes = (app, deps) => {
  const { keys } = deps;
  app.post(
    '/api/v1/api-keys/:key_id/rotate',
    {
      config: { access: { surface: 'session' } },
      schema: {
        summary: 'Rotate a key',
        description:
          'Only this response shows the new secret. The old one is refused at once, or when the grace period ends. While the key has five valid secrets, a grace period is a conflict (409); without one, all older secrets end.',
        idempotent: true,
        response: {
          200: Type.Object({ ...newKeySchema.properties, previous_key_expires_at: orNull(isoTimeSchema) }),
        },
        params: keyIdParams,
        body: nullable(
          onlyFields({
            grace_period_seconds: Type.Optional(Type.Integer({ minimum: 0, maximum: gracePeriodSecondsMax })),
          }),
        ),
      },
    },
    async (request, reply) => {
      const { key, secret, previousSecretExpiresAt } = await keys.rotateKey(
        {
          keyId: keyIdInPath(request.params.key_id),
          gracePeriod: durationFromMs((request.body?.grace_period_seconds ?? 0) * 1000),
          idempotencyKey: idempotencyKey(request),
        },
        asCaller(request),
      );
      const budget = await budgetOf(deps, key!, request);
      return noStore(reply).send({
        ...newKeyJson(key!, secret, budget),
        previous_key_expires_at: isoTime(previousSecretExpiresAt),
      });
    },
  );
};
