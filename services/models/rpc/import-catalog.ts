import { create } from '@bufbuild/protobuf';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { ImportCatalogResponseSchema, type ImportedModel } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { transaction } from '#shared/db/transaction.ts';
import { uuidv7 } from '#shared/ids.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import { lockCatalog, touchCatalog } from '../catalog/catalog-feed.ts';
import { importModels } from '../catalog/import.ts';
import { requireOperatorOrStart } from '../catalog/operators.ts';
import { ModelEntity } from '../db/catalog.entities.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';
import { unprobedStatus } from '../health/first-status.ts';

export const importCatalog =
  ({ database, feed, clock }: Pick<ModelsDeps, 'database' | 'feed' | 'clock'>): ModelsRpc<'importCatalog'> =>
  async (request, context) => {
    const caller = callerOf(context);
    requireOperatorOrStart(caller);
    const nowMs = clock.now();
    const dryRun = new DryRun();
    try {
      const counts = await transaction(database, async (em) => {
        await lockCatalog(em);
        const models = request.onlyNew ? await neverKnown(em, request.models) : request.models;
        const done = await importModels(em, models, unprobedStatus, new Date(nowMs));
        if (request.dryRun) throw dryRun.with(done);
        if (models.length === 0) return done;
        await touchCatalog(em);
        await recordAuditEvent(em, {
          id: uuidv7(),
          tenantId: '',
          type: 'catalog_imported',
          occurredAtMs: nowMs,
          caller,
          asOperator: true,
          target: { type: 'catalog', id: '' },
          after: {
            models: models.map(({ name }) => name),
            models_created: done.modelsCreated,
            models_updated: done.modelsUpdated,
            deployments_created: done.deploymentsCreated,
            deployments_updated: done.deploymentsUpdated,
            prices_created: done.pricesCreated,
          },
        });
        return done;
      });
      await feed.refresh();
      return create(ImportCatalogResponseSchema, counts);
    } catch (thrown) {
      if (thrown !== dryRun) throw thrown;
      return create(ImportCatalogResponseSchema, dryRun.counts);
    }
  };

/** Those whose name no model has or had. */
async function neverKnown(em: SqlEntityManager, models: readonly ImportedModel[]): Promise<ImportedModel[]> {
  const known = await em.find(ModelEntity, { name: { $in: models.map(({ name }) => name) } });
  const names = new Set(known.map(({ name }) => name));
  return models.filter(({ name }) => !names.has(name));
}

/** Rolls the transaction of a dry run back, and carries what it would have done out of it. */
class DryRun extends Error {
  counts: Awaited<ReturnType<typeof importModels>> | undefined;

  with(counts: Awaited<ReturnType<typeof importModels>>): this {
    this.counts = counts;
    return this;
  }
}
