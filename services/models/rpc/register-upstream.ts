import { create } from '@bufbuild/protobuf';
import {
  DeploymentSettingsSchema,
  DeploymentStatus,
  ModelSettingsSchema,
} from '#gen/modelgateway/models/v1/model_pb.ts';
import { ImportedModelSchema, RegisterUpstreamResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { transaction } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import { lockCatalog, touchCatalog } from '../catalog/catalog-feed.ts';
import { importModels } from '../catalog/import.ts';
import { listedModels } from '../catalog/listing.ts';
import { requireOperatorOrStart } from '../catalog/operators.ts';
import { addressOf } from '../catalog/write-deployment.ts';
import { ModelEntity } from '../db/catalog.entities.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';
import { operationsByName } from '../domain/operations-by-name.ts';

/** How long an upstream may take to list its models, in milliseconds: less than the call itself, so that its caller is told why it failed. */
const discoveryTimeoutMs = 8_000;

export const registerUpstream =
  ({
    database,
    feed,
    clock,
    connectUpstream,
  }: Pick<ModelsDeps, 'database' | 'feed' | 'clock' | 'connectUpstream'>): ModelsRpc<'registerUpstream'> =>
  async (request, context) => {
    const caller = callerOf(context);
    requireOperatorOrStart(caller);
    const settings = create(DeploymentSettingsSchema, {
      baseUrl: request.baseUrl,
      secretReference: request.secretReference || undefined,
      dialect: request.dialect,
    });
    // Refuses an address where no server can be.
    addressOf(settings, '');
    const upstream = connectUpstream(settings);
    let names: string[];
    try {
      names = await upstream.listModels(AbortSignal.any([context.signal, AbortSignal.timeout(discoveryTimeoutMs)]));
    } catch (cause) {
      throw gatewayError(
        ErrorReason.UPSTREAM_ERROR,
        `The models of ${request.baseUrl} cannot be listed: ${(cause as Error).message.replace(/\.$/, '')}.`,
        { cause },
      );
    } finally {
      await upstream.close();
    }

    const nowMs = clock.now();
    const counts = await transaction(database, async (em) => {
      await lockCatalog(em);
      const existing = await em.find(ModelEntity, { name: { $in: names }, deletedAt: null });
      const existingNames = new Set(existing.map(({ name }) => name));
      // Nobody's guess replaces what an operator may have corrected.
      const guessed = (name: string) => (existingNames.has(name) ? [] : operationsByName(name));
      const imported = names.map((name) =>
        create(ImportedModelSchema, {
          name,
          settings: create(ModelSettingsSchema, {
            operations: [...(request.operations.length > 0 ? request.operations : guessed(name))],
          }),
          deployments: [create(DeploymentSettingsSchema, { ...settings, upstreamModel: name })],
        }),
      );
      const done = await importModels(em, imported, () => DeploymentStatus.RUNNING, new Date(nowMs));
      if (done.modelsCreated + done.modelsUpdated + done.deploymentsCreated + done.deploymentsUpdated > 0) {
        await touchCatalog(em);
        await recordAuditEvent(em, {
          id: uuidv7(),
          tenantId: '',
          type: 'upstream_registered',
          occurredAtMs: nowMs,
          caller,
          asOperator: true,
          target: { type: 'upstream', id: request.baseUrl },
          after: { models: names },
        });
      }
      return done;
    });
    await feed.refresh();
    const registered = new Set(names);
    return create(RegisterUpstreamResponseSchema, {
      models: listedModels(feed.snapshot, '', nowMs).filter(({ name }) => registered.has(name)),
      deploymentsCreated: counts.deploymentsCreated,
    });
  };
