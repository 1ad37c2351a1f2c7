import { Type } from 'typebox';
import { type Deployment, UpstreamDialect } from '#gen/modelgateway/models/v1/model_pb.ts';
import { operatorOnly } from '../../../access.ts';
import { asCaller } from '../../../caller.ts';
import { isoTime } from '../../../http/json.ts';
import { idempotencyKey, pageQuerySchema, type Routes } from '../../routes.ts';
import { deploymentStatusName } from '../../v1/models.ts';
import { idInPath } from '../id-in-path.ts';
import {
  catalogModels,
  dialectName,
  dialectNamed,
  dialectSchema,
  modelNameSchema,
  pageOfItems,
} from './catalog-fields.ts';

const timeoutSchema = Type.Optional(Type.Integer({ minimum: 1, maximum: 3_600_000 }));
const settings = {
  base_url: Type.Optional(Type.String({ minLength: 1, maxLength: 2048 })),
  upstream_model: Type.Optional(modelNameSchema),
  secret_reference: Type.Optional(Type.String({ maxLength: 255 })),
  weight: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000 })),
  priority: Type.Optional(Type.Integer({ minimum: 0, maximum: 1000 })),
  concurrency_limit: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000 })),
  connect_timeout_ms: Type.Optional(Type.Integer({ minimum: 1, maximum: 600_000 })),
  first_byte_timeout_ms: timeoutSchema,
  idle_timeout_ms: timeoutSchema,
  total_timeout_ms: timeoutSchema,
  dialect: Type.Optional(dialectSchema),
  enabled: Type.Optional(Type.Boolean()),
  sandbox: Type.Optional(
    Type.Object(
      {
        latency_ms: Type.Optional(Type.Integer({ minimum: 0, maximum: 600_000 })),
        chunk_delay_ms: Type.Optional(Type.Integer({ minimum: 0, maximum: 60_000 })),
        error_per_million: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000 })),
        cut_after_chunks: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000 })),
      },
      { additionalProperties: false },
    ),
  ),
};
const settingsSchema = Type.Object(settings, { additionalProperties: false });
const params = Type.Object({ deployment_id: Type.String() });

/** /api/v1/admin/deployments: where models run. */
export const adminDeploymentRoutes: Routes = (app, { models }) => {
  app.get(
    '/api/v1/admin/deployments',
    {
      config: operatorOnly,
      schema: { querystring: Type.Object({ ...pageQuerySchema, model: Type.Optional(modelNameSchema) }) },
    },
    async (request) => {
      const entries = await catalogModels(models, request.query.model ?? '', request);
      return pageOfItems(
        entries.flatMap(({ deployments }) => deployments.map(adminDeploymentJson)),
        request.query,
      );
    },
  );

  app.post(
    '/api/v1/admin/deployments',
    {
      config: operatorOnly,
      schema: { body: Type.Object({ model: modelNameSchema, ...settings }, { additionalProperties: false }) },
    },
    async (request, reply) => {
      const { model, ...fields } = request.body;
      const { deployment } = await models.createDeployment(
        { model, settings: deploymentSettings(fields), idempotencyKey: idempotencyKey(request) },
        asCaller(request),
      );
      return reply.code(201).send(adminDeploymentJson(deployment!));
    },
  );

  app.patch(
    '/api/v1/admin/deployments/:deployment_id',
    { config: operatorOnly, schema: { params, body: settingsSchema } },
    async (request) => {
      const { deployment } = await models.updateDeployment(
        {
          deploymentId: idInPath(request.params.deployment_id, 'deployment'),
          settings: deploymentSettings(request.body),
        },
        asCaller(request),
      );
      return adminDeploymentJson(deployment!);
    },
  );

  app.delete(
    '/api/v1/admin/deployments/:deployment_id',
    { config: operatorOnly, schema: { params } },
    async (request, reply) => {
      await models.deleteDeployment(
        { deploymentId: idInPath(request.params.deployment_id, 'deployment') },
        asCaller(request),
      );
      return reply.code(204).send();
    },
  );
};

const deploymentSettings = (fields: Type.Static<typeof settingsSchema>) => ({
  baseUrl: fields.base_url,
  upstreamModel: fields.upstream_model,
  secretReference: fields.secret_reference,
  weight: fields.weight,
  priority: fields.priority,
  concurrencyLimit: fields.concurrency_limit,
  connectTimeoutMs: fields.connect_timeout_ms,
  firstByteTimeoutMs: fields.first_byte_timeout_ms,
  idleTimeoutMs: fields.idle_timeout_ms,
  totalTimeoutMs: fields.total_timeout_ms,
  dialect: dialectNamed(fields.dialect),
  enabled: fields.enabled,
  sandbox:
    fields.sandbox === undefined
      ? undefined
      : {
          latencyMs: fields.sandbox.latency_ms ?? 0,
          chunkDelayMs: fields.sandbox.chunk_delay_ms ?? 0,
          errorPerMillion: fields.sandbox.error_per_million ?? 0,
          cutAfterChunks: fields.sandbox.cut_after_chunks ?? 0,
        },
});

export function adminDeploymentJson(deployment: Deployment) {
  const settings = deployment.settings!;
  return {
    id: deployment.id,
    model: deployment.model,
    status: deploymentStatusName(deployment.status),
    status_reason: deployment.statusReason || null,
    status_changed_at: isoTime(deployment.statusChangedAt),
    base_url: settings.dialect === UpstreamDialect.SANDBOX ? null : (settings.baseUrl ?? null),
    upstream_model: settings.upstreamModel || deployment.model,
    secret_reference: settings.secretReference || null,
    weight: settings.weight,
    priority: settings.priority,
    concurrency_limit: settings.concurrencyLimit,
    connect_timeout_ms: settings.connectTimeoutMs,
    first_byte_timeout_ms: settings.firstByteTimeoutMs,
    idle_timeout_ms: settings.idleTimeoutMs,
    total_timeout_ms: settings.totalTimeoutMs,
    dialect: dialectName(settings.dialect),
    sandbox:
      settings.sandbox === undefined
        ? null
        : {
            latency_ms: settings.sandbox.latencyMs,
            chunk_delay_ms: settings.sandbox.chunkDelayMs,
            error_per_million: settings.sandbox.errorPerMillion,
            cut_after_chunks: settings.sandbox.cutAfterChunks,
          },
    enabled: settings.enabled,
    created_at: isoTime(deployment.createdAt),
  };
}
