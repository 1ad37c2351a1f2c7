import { Type } from 'typebox';
import { type Key, KeyStatus, KeyType } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { callerContext } from '#shared/rpc/caller.ts';
import { callerOfRequest } from '../../caller.ts';
import { isoTime, paginationJson, parseTime, parseUsdField, usdOrNull } from '../../http/json.ts';
import { idempotencyKey, pageQuerySchema, type Routes } from '../routes.ts';

const keyTypes = { inference: KeyType.INFERENCE, management: KeyType.MANAGEMENT } as const;
const statuses = { active: KeyStatus.ACTIVE, expired: KeyStatus.EXPIRED } as const;

const nullable = <Schema extends Parameters<typeof Type.Optional>[0]>(schema: Schema) =>
  Type.Optional(Type.Union([schema, Type.Null()]));
const stringList = Type.Array(Type.String({ maxLength: 255 }), { maxItems: 1000 });

const constraintFields = {
  model_allowlist: nullable(stringList),
  ip_allowlist: nullable(stringList),
  spend_cap_usd: nullable(Type.Number()),
};

/** API key management (service.md, Endpoints): sessions only, each user their own keys. */
export const apiKeyRoutes: Routes = (app, { keys }) => {
  app.get(
    '/api/v1/api-keys',
    {
      config: { access: { surface: 'session' } },
      schema: {
        querystring: Type.Object({
          ...pageQuerySchema,
          key_type: Type.Optional(Type.Union([Type.Literal('inference'), Type.Literal('management')])),
          status: Type.Optional(Type.Union([Type.Literal('active'), Type.Literal('expired')])),
          search: Type.Optional(Type.String({ maxLength: 255 })),
        }),
      },
    },
    async (request) => {
      const { page, limit, key_type, status, search } = request.query;
      const answer = await keys.listKeys(
        {
          page: { page, limit },
          keyType: key_type === undefined ? KeyType.UNSPECIFIED : keyTypes[key_type],
          status: status === undefined ? KeyStatus.UNSPECIFIED : statuses[status],
          search: search ?? '',
        },
        { contextValues: callerContext(callerOfRequest(request)) },
      );
      return { data: answer.keys.map(keyJson), pagination: paginationJson(answer.page) };
    },
  );

  app.post(
    '/api/v1/api-keys',
    {
      config: { access: { surface: 'session' } },
      schema: {
        body: Type.Object(
          {
            name: Type.String({ minLength: 2, maxLength: 255 }),
            key_type: Type.Optional(Type.Union([Type.Literal('inference'), Type.Literal('management')])),
            scopes: Type.Optional(Type.Array(Type.String({ maxLength: 64 }), { minItems: 1, maxItems: 100 })),
            expires_at: nullable(Type.String({ maxLength: 64 })),
            ...constraintFields,
          },
          { additionalProperties: false },
        ),
      },
    },
    async (request, reply) => {
      const body = request.body;
      const { key, secret } = await keys.createKey(
        {
          name: body.name,
          keyType: keyTypes[body.key_type ?? 'inference'],
          scopes: body.scopes === undefined ? undefined : { scopes: body.scopes },
          expiresAt: body.expires_at == null ? undefined : parseTime(body.expires_at, 'expires_at'),
          constraints: {
            modelAllowlist: body.model_allowlist ?? [],
            ipAllowlist: body.ip_allowlist ?? [],
            spendCapNanoUsd:
              body.spend_cap_usd == null ? undefined : parseUsdField(body.spend_cap_usd, 'spend_cap_usd'),
          },
          idempotencyKey: idempotencyKey(request),
        },
        { contextValues: callerContext(callerOfRequest(request)) },
      );
      const { id, name, key_type, scopes, created_at, expires_at, model_allowlist, ip_allowlist, spend_cap_usd } =
        keyJson(key!);
      return reply.code(201).header('cache-control', 'no-store').send({
        id,
        name,
        key_type,
        key: secret,
        scopes,
        created_at,
        expires_at,
        model_allowlist,
        ip_allowlist,
        spend_cap_usd,
      });
    },
  );

  app.get(
    '/api/v1/api-keys/:key_id',
    { config: { access: { surface: 'session' } }, schema: { params: Type.Object({ key_id: Type.String() }) } },
    async (request) => {
      const { key } = await keys.getKey(
        { keyId: request.params.key_id },
        { contextValues: callerContext(callerOfRequest(request)) },
      );
      return keyJson(key!);
    },
  );

  app.patch(
    '/api/v1/api-keys/:key_id',
    {
      config: { access: { surface: 'session' } },
      schema: {
        params: Type.Object({ key_id: Type.String() }),
        body: Type.Object(
          {
            name: Type.Optional(Type.String({ minLength: 2, maxLength: 255 })),
            scopes: Type.Optional(Type.Array(Type.String({ maxLength: 64 }), { minItems: 1, maxItems: 100 })),
            expires_at: nullable(Type.String({ maxLength: 64 })),
            ...constraintFields,
          },
          { additionalProperties: false },
        ),
      },
    },
    async (request) => {
      const body = request.body;
      // The public names of the fields but for the cap are those of the mask; absent means unchanged, null clears.
      const paths = Object.keys(body).map((field) => (field === 'spend_cap_usd' ? 'spend_cap_nano_usd' : field));
      const { key } = await keys.updateKey(
        {
          keyId: request.params.key_id,
          updateMask: { paths },
          name: body.name ?? '',
          scopes: body.scopes ?? [],
          expiresAt: body.expires_at == null ? undefined : parseTime(body.expires_at, 'expires_at'),
          modelAllowlist: body.model_allowlist ?? [],
          ipAllowlist: body.ip_allowlist ?? [],
          spendCapNanoUsd: body.spend_cap_usd == null ? undefined : parseUsdField(body.spend_cap_usd, 'spend_cap_usd'),
        },
        { contextValues: callerContext(callerOfRequest(request)) },
      );
      return keyJson(key!);
    },
  );

  app.delete(
    '/api/v1/api-keys/:key_id',
    { config: { access: { surface: 'session' } }, schema: { params: Type.Object({ key_id: Type.String() }) } },
    async (request, reply) => {
      await keys.deleteKey(
        { keyId: request.params.key_id },
        { contextValues: callerContext(callerOfRequest(request)) },
      );
      return reply.code(204).send();
    },
  );
};

/** A list item (service.md, API key, rule 2) with its constraints (decisions.md, Keys). */
export function keyJson(key: Key) {
  const constraints = key.constraints;
  return {
    id: key.id,
    name: key.name,
    key_type: key.keyType === KeyType.MANAGEMENT ? 'management' : 'inference',
    key_preview: key.keyPreview,
    scopes: key.scopes,
    created_at: isoTime(key.createdAt),
    expires_at: isoTime(key.expiresAt),
    last_used_at: isoTime(key.lastUsedAt),
    usage_count: Number(key.usageCount),
    is_active: key.status === KeyStatus.ACTIVE,
    model_allowlist: listOrNull(constraints?.modelAllowlist),
    ip_allowlist: listOrNull(constraints?.ipAllowlist),
    spend_cap_usd: usdOrNull(constraints?.spendCapNanoUsd),
  };
}

const listOrNull = (list: readonly string[] | undefined): readonly string[] | null =>
  list === undefined || list.length === 0 ? null : list;
