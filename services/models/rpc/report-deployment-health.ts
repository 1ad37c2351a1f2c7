import { create } from '@bufbuild/protobuf';
import { DeploymentStatus, DeploymentStatusSchema } from '#gen/modelgateway/models/v1/model_pb.ts';
import { ReportDeploymentHealthResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { transaction } from '#shared/db/transaction.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import { lockCatalog, touchCatalog } from '../catalog/catalog-feed.ts';
import { DeploymentEntity } from '../db/catalog.entities.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';
import { DeploymentHealth, type Judged } from '../domain/deployment-health.ts';

/**
 * Takes an edge's report and updates deployments' statuses by what all edges report. Reports are kept in memory: a status that a restart
 * leaves wrong is corrected by the next reports.
 */
export function reportDeploymentHealth({
  database,
  feed,
  clock,
  logger,
}: Pick<ModelsDeps, 'database' | 'feed' | 'clock' | 'logger'>): ModelsRpc<'reportDeploymentHealth'> {
  const healthOf = new Map<string, DeploymentHealth>();

  return async ({ edgeId, deployments }, context) => {
    requireService(callerOf(context), 'inference');
    const nowMs = clock.monotonic();
    const states = currentStates(feed.snapshot);
    // Forgets deleted deployments.
    for (const id of healthOf.keys()) if (!states.has(id)) healthOf.delete(id);

    const changes = new Map<string, Judged>();
    for (const report of deployments) {
      const current = states.get(report.deploymentId);
      if (current === undefined) continue;
      const health = healthOf.get(report.deploymentId) ?? new DeploymentHealth();
      healthOf.set(report.deploymentId, health);
      health.take(edgeId, report, nowMs);
      const judged = health.judge(current, nowMs);
      if (judged !== null) changes.set(report.deploymentId, judged);
    }
    if (changes.size > 0) {
      const changed = await transaction(database, async (em) => {
        const moved = [];
        // Before the rows are read: an operator may stop one meanwhile.
        await lockCatalog(em);
        const rows = await em.find(DeploymentEntity, {
          id: { $in: [...changes.keys()] },
          status: { $ne: DeploymentStatus.STOPPED },
        });
        for (const row of rows) {
          const { status, reason } = changes.get(row.id)!;
          if (status !== row.status) {
            row.statusChangedAt = new Date(clock.now());
            moved.push({ deployment: row.id, before: nameOf(row.status), status: nameOf(status), reason });
          }
          Object.assign(row, { status, statusReason: reason });
        }
        if (rows.length > 0) await touchCatalog(em);
        return moved;
      });
      for (const change of changed)
        logger.warn({ model: states.get(change.deployment)!.model, ...change }, 'the status of a deployment changed');
      await feed.refresh();
    }
    return create(ReportDeploymentHealthResponseSchema, {});
  };
}

const currentStates = (snapshot: ModelsDeps['feed']['snapshot']): Map<string, Judged & { model: string }> =>
  new Map(
    snapshot.models.flatMap(({ deployments }) =>
      deployments.map(({ id, model, status, statusReason: reason }) => [id, { model, status, reason }] as const),
    ),
  );

/** As the public API spells it. */
const nameOf = (status: DeploymentStatus): string => DeploymentStatusSchema.value[status]!.localName;
