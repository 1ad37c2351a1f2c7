import { create, fromJson } from '@bufbuild/protobuf';
import {
  type DeploymentSettings,
  DeploymentSettingsSchema,
  DeploymentStatus,
  DeploymentStatusSchema,
} from '#gen/modelgateway/models/v1/model_pb.ts';
import { ReportDeploymentHealthResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { transaction } from '#shared/db/transaction.ts';
import { uuidv7 } from '#shared/ids.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import { lockCatalog, touchCatalog } from '../catalog/catalog-feed.ts';
import { DeploymentEntity } from '../db/catalog.entities.ts';
import { exchangeOpinions } from '../db/opinion.repository.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';
import { agreedStatus, DeploymentHealth, freshMs, type Judged } from '../domain/deployment-health.ts';
import { serverOf } from '../domain/deployment-settings.ts';

/** How long an edge may tell of the server that a deployment had before, in milliseconds: edges follow the catalog within a second. */
const staleMs = 1_000;

/**
 * Takes an edge's report and updates deployments' statuses by what all edges report. Reports are kept in memory: a status that a restart
 * leaves wrong is corrected by the next reports. Other Models processes, whose edges may see something else, are told what they amount to.
 */
export function reportDeploymentHealth({
  database,
  feed,
  clock,
  logger,
}: Pick<ModelsDeps, 'database' | 'feed' | 'clock' | 'logger'>): ModelsRpc<'reportDeploymentHealth'> {
  const modelsId = uuidv7();
  const healthOf = new Map<string, { server: string; fromMs: number; health: DeploymentHealth }>();

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
      const server = serverOf(current.settings);
      let known = healthOf.get(report.deploymentId);
      if (known?.server !== server) {
        // What edges told of the server that a deployment had before says nothing about the one that it has.
        const fromMs = known === undefined ? nowMs : nowMs + staleMs;
        known = { server, fromMs, health: new DeploymentHealth() };
        healthOf.set(report.deploymentId, known);
      }
      const { health, fromMs } = known;
      if (nowMs < fromMs) continue;
      health.take(edgeId, report, nowMs);
      const judged = health.judge(current, nowMs);
      if (judged !== null) changes.set(report.deploymentId, judged);
    }
    if (changes.size > 0) {
      const moved = await transaction(database, async (em) => {
        const moved = [];
        // Before the rows are read: an operator may stop one meanwhile.
        await lockCatalog(em);
        const rows = await em.find(DeploymentEntity, {
          id: { $in: [...changes.keys()] },
          status: { $ne: DeploymentStatus.STOPPED },
        });
        const judged = rows
          // Or move one.
          .filter(
            ({ id, settings }) =>
              serverOf(fromJson(DeploymentSettingsSchema, settings)) === serverOf(states.get(id)!.settings),
          )
          .map((row) => ({ row, ...changes.get(row.id)! }));
        const known = judged.filter(({ status }) => status !== DeploymentStatus.PENDING);
        const statuses = new Map(known.map(({ row, status }) => [row.id, status]));
        const others = await exchangeOpinions(em, { modelsId, statuses }, freshMs);
        let isChanged = false;
        for (const { row, status: own, reason } of judged) {
          const status = agreedStatus(own, others.get(row.id) ?? []);
          if (status === row.status && status !== DeploymentStatus.PENDING) continue;
          isChanged = true;
          if (status !== row.status) {
            row.statusChangedAt = new Date(clock.now());
            moved.push({ deployment: row.id, before: nameOf(row.status), status: nameOf(status), reason });
          }
          // What another process has its doubts about stays as it told it.
          const isDoubtOfOther = own === DeploymentStatus.RUNNING && status !== own;
          Object.assign(row, { status, ...(!isDoubtOfOther && { statusReason: reason }) });
        }
        if (!isChanged) return null;
        await touchCatalog(em);
        return moved;
      });
      if (moved === null) return create(ReportDeploymentHealthResponseSchema, {});
      for (const change of moved)
        logger.warn({ model: states.get(change.deployment)!.model, ...change }, 'the status of a deployment changed');
      await feed.refresh();
    }
    return create(ReportDeploymentHealthResponseSchema, {});
  };
}

const currentStates = (
  snapshot: ModelsDeps['feed']['snapshot'],
): Map<string, Judged & { model: string; settings: DeploymentSettings }> =>
  new Map(
    snapshot.models.flatMap(({ deployments }) =>
      deployments.map(
        ({ id, model, status, statusReason: reason, settings }) =>
          [id, { model, status, reason, settings: settings! }] as const,
      ),
    ),
  );

/** As the public API spells it. */
const nameOf = (status: DeploymentStatus): string => DeploymentStatusSchema.value[status]!.localName;
