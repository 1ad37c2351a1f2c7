import { type Static, Type } from 'typebox';
import {
  type Deployment,
  type DeploymentSettingsSchema,
  DeploymentStatus,
  UpstreamDialect,
} from '#gen/modelgateway/models/v1/model_pb.ts';
import type { WholeMessage } from '#shared/whole-message.ts';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { idempotencyKey } from '../../../http/idempotency-key.ts';
import { idSchema, isoTime, isoTimeSchema, noBody, pageOf, pageOfItems, pageQuerySchema } from '../../../http/json.ts';
import { orNull } from '../../../http/nullable.ts';
import { deploymentStatuses } from '../../v1/models.ts';
import { idInPath } from '../id-in-path.ts';
import { baseUrlSchema, catalogModels, dialects, modelNameSchema, secretReferenceSchema } from './catalog-fields.ts';

const timeoutSchema = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 1, maximum: 3_600_000, description }));
const settings = {
  base_url: Type.Optional(baseUrlSchema),
  upstream_model: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description: "The upstream's name for the model; the same name by default.",
    }),
  ),
  secret_reference: secretReferenceSchema,
  weight: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1000,
      description: 'Share of traffic among deployments of the same priority; 1 by default.',
    }),
  ),
  priority: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 1000,
      description: 'Deployments with the lowest number go first, others on failure; 0 by default.',
    }),
  ),
  concurrency_limit: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 1_000_000,
      description: 'The most concurrent calls per edge; 1,000 by default, and for 0.',
    }),
  ),
  connect_timeout_ms: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 600_000, description: 'Until the connection is open; 5,000 by default.' }),
  ),
  first_byte_timeout_ms: timeoutSchema('To the first byte of the response; 600,000 by default.'),
  idle_timeout_ms: timeoutSchema('Between two chunks of the response; 300,000 by default.'),
  total_timeout_ms: timeoutSchema('For the whole call; 600,000 by default.'),
  dialect: Type.Optional(dialects.schema),
  enabled: Type.Optional(Type.Boolean({ description: '`false` stops the deployment.' })),
  sandbox: Type.Optional(
    Type.Object(
      {
        latency_ms: Type.Optional(Type.Integer({ minimum: 0, maximum: 600_000 })),
        chunk_delay_ms: Type.Optional(Type.Integer({ minimum: 0, maximum: 60_000 })),
        error_per_million: Type.Optional(
          Type.Integer({ minimum: 0, maximum: 1_000_000, description: 'How many calls in a million fail with a 500.' }),
        ),
        cut_after_chunks: Type.Optional(
          Type.Integer({
            minimum: 0,
            maximum: 1_000_000,
            description: 'Bodies are cut after this many pieces; 0: never.',
          }),
        ),
      },
      {
        additionalProperties: false,
        description: 'How the sandbox behaves, replaced as a whole; only with the dialect `sandbox`.',
      },
    ),
  ),
};
const settingsSchema = onlyFields(settings);
const params = Type.Object({ deployment_id: idSchema });

/** Deployments that need attention come before the others. */
const troubles: readonly DeploymentStatus[] = [
  DeploymentStatus.FAILED,
  DeploymentStatus.DEGRADED,
  DeploymentStatus.PENDING,
];
const rank = ({ status }: Deployment): number =>
  troubles.includes(status) ? troubles.indexOf(status) : troubles.length;

/** /api/v1/admin/deployments: where models run. */
export const adminDeploymentRoutes: Routes = (app, { models }) => {
  app.get(
    '/api/v1/admin/deployments',
    {
      config: operatorOnly,
      schema: {
        summary: 'List deployments',
        description: 'By model, the oldest first unless `troubled_first` is given.',
        response: { 200: pageOf(deploymentSchema) },
        querystring: Type.Object({
          ...pageQuerySchema,
          model: Type.Optional(modelNameSchema),
          troubled_first: Type.Optional(
            Type.Literal(true, { description: 'Those that are Failed, Degraded or Pending first, in this order.' }),
          ),
        }),
      },
    },
    async (request) => {
      const { model = '', troubled_first } = request.query;
      const entries = await catalogModels(models, model, asCaller(request));
      const deployments = entries.flatMap((entry) => entry.deployments);
      return pageOfItems(
        troubled_first ? deployments.toSorted((one, other) => rank(one) - rank(other)) : deployments,
        adminDeploymentJson,
        request.query,
      );
    },
  );

  app.post(
    '/api/v1/admin/deployments',
    {
      config: operatorOnly,
      schema: {
        summary: 'Create a deployment',
        description: 'It gets traffic once a probe has succeeded.',
        idempotent: true,
        response: { 201: deploymentSchema },
        body: onlyFields({ model: modelNameSchema, ...settings }),
      },
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
    {
      config: operatorOnly,
      schema: {
        summary: 'Change a deployment',
        description:
          'Calls in flight keep the old settings. One that moves to another server gets traffic once a probe has succeeded.',
        response: { 200: deploymentSchema },
        params,
        body: settingsSchema,
      },
    },
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
    {
      config: operatorOnly,
      schema: { summary: 'Delete a deployment', response: { 204: noBody('Calls in flight are finished.') }, params },
    },
    async (request, reply) => {
      await models.deleteDeployment(
        { deploymentId: idInPath(request.params.deployment_id, 'deployment') },
        asCaller(request),
      );
      return reply.code(204).send();
    },
  );
};

const deploymentSettings = (
  fields: Type.Static<typeof settingsSchema>,
): WholeMessage<typeof DeploymentSettingsSchema> => ({
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
  dialect: dialects.value(fields.dialect),
  enabled: fields.enabled,
  sandbox:
    fields.sandbox === undefined
      ? undefined
      : {
          latencyMs: fields.sandbox.latency_ms,
          chunkDelayMs: fields.sandbox.chunk_delay_ms,
          errorPerMillion: fields.sandbox.error_per_million,
          cutAfterChunks: fields.sandbox.cut_after_chunks,
        },
});

export const deploymentSchema = Type.Object(
  {
    id: idSchema,
    model: Type.String(),
    status: deploymentStatuses.schema,
    status_reason: orNull(Type.String()),
    status_changed_at: isoTimeSchema,
    base_url: orNull(Type.String()),
    upstream_model: Type.String(),
    secret_reference: orNull(Type.String()),
    weight: Type.Integer(),
    priority: Type.Integer(),
    concurrency_limit: Type.Integer(),
    connect_timeout_ms: Type.Integer(),
    first_byte_timeout_ms: Type.Integer(),
    idle_timeout_ms: Type.Integer(),
    total_timeout_ms: Type.Integer(),
    dialect: dialects.schema,
    sandbox: orNull(
      Type.Object({
        latency_ms: Type.Integer(),
        chunk_delay_ms: Type.Integer(),
        error_per_million: Type.Integer(),
        cut_after_chunks: Type.Integer(),
      }),
    ),
    enabled: Type.Boolean(),
    created_at: isoTimeSchema,
  },
  { $id: 'Deployment' },
);
export function adminDeploymentJson(deployment: Deployment): Static<typeof deploymentSchema> {
  const settings = deployment.settings!;
  return {
    id: deployment.id,
    model: deployment.model,
    status: deploymentStatuses.name(deployment.status),
    status_reason: deployment.statusReason || null,
    status_changed_at: isoTime(deployment.statusChangedAt!),
    base_url: settings.dialect === UpstreamDialect.SANDBOX ? null : (settings.baseUrl ?? null),
    upstream_model: settings.upstreamModel || deployment.model,
    secret_reference: settings.secretReference || null,
    weight: settings.weight!,
    priority: settings.priority!,
    concurrency_limit: settings.concurrencyLimit!,
    connect_timeout_ms: settings.connectTimeoutMs!,
    first_byte_timeout_ms: settings.firstByteTimeoutMs!,
    idle_timeout_ms: settings.idleTimeoutMs!,
    total_timeout_ms: settings.totalTimeoutMs!,
    // OpenAI's when nobody chose one.
    dialect: dialects.name(settings.dialect || UpstreamDialect.OPENAI),
    sandbox:
      settings.sandbox === undefined
        ? null
        : {
            latency_ms: settings.sandbox.latencyMs,
            chunk_delay_ms: settings.sandbox.chunkDelayMs,
            error_per_million: settings.sandbox.errorPerMillion,
            cut_after_chunks: settings.sandbox.cutAfterChunks,
          },
    enabled: settings.enabled!,
    created_at: isoTime(deployment.createdAt!),
  };
}
