import { Type } from 'typebox';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { noBody, parseTimeIfGiven } from '../../../http/json.ts';
import { budgetOf } from './key-budgets.ts';
import {
  constraintFields,
  expiryField,
  keyIdInPath,
  keyIdParams,
  nameField,
  readConstraints,
  scopesField,
} from './key-fields.ts';
import { keyJson, keySchema } from './key-json.ts';
import { requireUsableModels } from './usable-models.ts';

/** GET, PATCH and DELETE /api/v1/api-keys/{key_id}: one of the user's own keys. */
export const keyRoutes: Routes = (app, deps) => {
  const { keys } = deps;
  const config = { access: { surface: 'session' } } as const;

  app.get(
    '/api/v1/api-keys/:key_id',
    { config, schema: { summary: 'Get a key', params: keyIdParams, response: { 200: keySchema } } },
    async (request) => {
      const { key } = await keys.getKey({ keyId: keyIdInPath(request.params.key_id) }, asCaller(request));
      return keyJson(key!, await budgetOf(deps, key!, request));
    },
  );

  app.patch(
    '/api/v1/api-keys/:key_id',
    {
      config,
      schema: {
        summary: 'Change a key',
        description:
          'Whatever is left out stays as it is. Null or an empty list removes a constraint; null also removes the expiry.',
        response: { 200: keySchema },
        params: keyIdParams,
        body: onlyFields({
          name: Type.Optional(nameField),
          scopes: scopesField,
          expires_at: expiryField,
          ...constraintFields,
        }),
      },
    },
    async (request) => {
      const body = request.body;
      const options = asCaller(request);
      const keyId = keyIdInPath(request.params.key_id);
      await requireUsableModels(deps, body.model_allowlist ?? [], options, keyId);
      // Except for the cap, fields have the same names in public as in the mask; absent means unchanged, null clears.
      const paths = Object.keys(body).map((field) => (field === 'spend_cap_usd' ? 'spend_cap_nano_usd' : field));
      const { key } = await keys.updateKey(
        {
          keyId,
          updateMask: { paths },
          name: body.name,
          scopes: body.scopes,
          expiresAt: parseTimeIfGiven(body.expires_at, 'expires_at'),
          ...readConstraints(body),
        },
        options,
      );
      return keyJson(key!, await budgetOf(deps, key!, request));
    },
  );

  app.delete(
    '/api/v1/api-keys/:key_id',
    {
      config,
      schema: {
        summary: 'Delete a key',
        params: keyIdParams,
        response: { 204: noBody('Every call with the key is refused from now on.') },
      },
    },
    async (request, reply) => {
      await keys.deleteKey({ keyId: keyIdInPath(request.params.key_id) }, asCaller(request));
      return reply.code(204).send();
    },
  );
};
