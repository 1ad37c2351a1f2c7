import { Type } from 'typebox';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { idempotencyKey } from '../../../http/idempotency-key.ts';
import { pageQuerySchema, paginationJson, parseTimeIfGiven, timeSchema } from '../../../http/json.ts';
import { noStore } from '../../../http/no-store.ts';
import { budgetOf, budgetsOf } from './key-budgets.ts';
import {
  constraintFields,
  expiryField,
  keyStatuses,
  keyTypeField,
  keyTypes,
  nameField,
  readConstraints,
  scopesField,
} from './key-fields.ts';
import { keyJson, keyListSchema, newKeyJson, newKeySchema } from './key-json.ts';
import { unusableModels } from './usable-models.ts';

/** GET and POST /api/v1/api-keys: the user's own keys. */
export const keyCollectionRoutes: Routes = (app, deps) => {
  const { keys } = deps;
  app.get(
    '/api/v1/api-keys',
    {
      config: { access: { surface: 'session' } },
      schema: {
        summary: 'List keys',
        description: "The caller's own keys, newest first, and how many they may have.",
        response: { 200: keyListSchema },
        querystring: Type.Object({
          ...pageQuerySchema,
          key_type: keyTypeField,
          status: Type.Optional(
            Type.Enum(['active', 'expired'], { description: '`expired` includes keys that an operator revoked.' }),
          ),
          search: Type.Optional(Type.String({ maxLength: 255, description: 'Part of the name or preview.' })),
          expires_before: Type.Optional(timeSchema),
          has_spend_cap: Type.Optional(Type.Literal(true, { description: 'Only keys with a daily spend cap.' })),
        }),
      },
    },
    async (request) => {
      const { page, limit, key_type, status, search, expires_before, has_spend_cap } = request.query;
      const answer = await keys.listKeys(
        {
          page: { page, limit },
          keyType: keyTypes.value(key_type),
          status: keyStatuses.value(status),
          search,
          expiresBefore: parseTimeIfGiven(expires_before, 'expires_before'),
          withSpendCap: has_spend_cap,
        },
        asCaller(request),
      );
      const budgets = await budgetsOf(deps, answer.keys, request);
      return {
        data: answer.keys.map((key) => keyJson(key, budgets.get(key.id) ?? null)),
        pagination: paginationJson(answer.page),
        quota: { used: Number(answer.keysUsed), limit: answer.keysMax === undefined ? null : Number(answer.keysMax) },
      };
    },
  );

  app.post(
    '/api/v1/api-keys',
    {
      config: { access: { surface: 'session' } },
      schema: {
        summary: 'Create a key',
        description:
          "Only this response shows the secret. `key_type` is `inference` by default; `scopes` are all of the key's type by default, for a member without `usage:read_breakdown`.",
        idempotent: true,
        response: { 201: newKeySchema },
        body: onlyFields({
          name: nameField,
          key_type: keyTypeField,
          scopes: scopesField,
          expires_at: expiryField,
          ...constraintFields,
        }),
      },
    },
    async (request, reply) => {
      const body = request.body;
      const options = asCaller(request);
      const [unusableModel] = await unusableModels(deps, body.model_allowlist ?? [], options);
      const { key, secret } = await keys.createKey(
        {
          name: body.name,
          keyType: keyTypes.value(body.key_type ?? 'inference'),
          scopes: body.scopes === undefined ? undefined : { scopes: body.scopes },
          expiresAt: parseTimeIfGiven(body.expires_at, 'expires_at'),
          constraints: readConstraints(body),
          unusableModel,
          idempotencyKey: idempotencyKey(request),
        },
        options,
      );
      const budget = await budgetOf(deps, key!, request);
      return noStore(reply)
        .code(201)
        .send(newKeyJson(key!, secret, budget));
    },
  );
};
