import { create, fromJson } from '@bufbuild/protobuf';
import {
  type DeploymentSettings,
  DeploymentSettingsSchema,
  DeploymentStatus,
  DeploymentStatusSchema,
} from '#gen/modelgateway/models/v1/model_pb.ts';
import {
  type ReportDeploymentHealthRequest,
  ReportDeploymentHealthResponseSchema,
} from '#gen/modelgateway/models/v1/models_service_pb.ts';
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

type Deps = Pick<ModelsDeps, 'database' | 'feed' | 'clock' | 'logger'>;

/** What edges have told of deployments, by their ids, as far as they told it of the server that each has now. */
type Observations = Map<string, { server: string; fromMs: number; health: DeploymentHealth }>;

/** The catalog's deployments by their ids. */
type States = ReadonlyMap<string, Judged & { model: string; settings: DeploymentSettings }>;

/**
 * Takes an edge's report and updates deployments' statuses by what all edges report. Reports are kept in memory: a status that a restart
 * leaves wrong is corrected by the next reports. Other Models processes, whose edges may see something else, are told what they amount to.
 */
export function reportDeploymentHealth(deps: Deps): ModelsRpc<'reportDeploymentHealth'> {
  const { feed, clock, logger } = deps;
  const modelsId = uuidv7();
  const observations: Observations = new Map();

  return async (report, context) => {
    requireService(callerOf(context), 'inference');
    const states = currentStates(feed.snapshot);
    const changing = observe(report, states, observations, clock.monotonic());
    const moved =
      changing.length === 0 ? null : await storeStatuses(deps, { changing, states, observations, modelsId });
    if (moved !== null) {
      for (const change of moved)
        logger.warn({ model: states.get(change.deployment)!.model, ...change }, 'the status of a deployment changed');
      await feed.refresh();
    }
    return create(ReportDeploymentHealthResponseSchema);
  };
}

/** Adds a report to what was observed. Returns the ids of deployments for which that may change something. */
function observe(
  { edgeId, deployments }: ReportDeploymentHealthRequest,
  states: States,
  observations: Observations,
  nowMs: number,
): string[] {
  // Forgets deleted deployments.
  for (const id of observations.keys()) if (!states.has(id)) observations.delete(id);
  const changing: string[] = [];
  for (const report of deployments) {
    const current = states.get(report.deploymentId);
    if (current === undefined) continue;
    const server = serverOf(current.settings);
    let observed = observations.get(report.deploymentId);
    if (observed?.server !== server) {
      // What edges told of the server that a deployment had before says nothing about the one that it has.
      const fromMs = observed === undefined ? nowMs : nowMs + staleMs;
      observed = { server, fromMs, health: new DeploymentHealth() };
      observations.set(report.deploymentId, observed);
    }
    if (nowMs < observed.fromMs) continue;
    observed.health.take(edgeId, report, nowMs);
    if (observed.health.judge(current, nowMs) !== null) changing.push(report.deploymentId);
  }
  return changing;
}

type Moved = { deployment: string; before: string; status: string; reason: string };

/** Stores the statuses on which this process and others agree. Returns those that are others than before; null when nothing changed. */
const storeStatuses = (
  { database, clock }: Deps,
  {
    changing,
    states,
    observations,
    modelsId,
  }: { changing: readonly string[]; states: States; observations: Observations; modelsId: string },
): Promise<Moved[] | null> =>
  transaction(database, async (em) => {
    // Before the rows are read: an operator may stop one meanwhile, or move it.
    await lockCatalog(em);
    const rows = await em.find(DeploymentEntity, {
      id: { $in: changing },
      status: { $ne: DeploymentStatus.STOPPED },
    });
    const kept = rows.filter(
      ({ id, settings }) =>
        serverOf(fromJson(DeploymentSettingsSchema, settings)) === serverOf(states.get(id)!.settings),
    );
    // By its status now: another report may have changed it meanwhile.
    const judged = kept.flatMap((row) => {
      const current = { status: row.status, reason: row.statusReason };
      const opinion = observations.get(row.id)?.health.judge(current, clock.monotonic());
      return opinion ? [{ row, ...opinion }] : [];
    });
    const known = judged.filter(({ status }) => status !== DeploymentStatus.PENDING);
    const statuses = new Map(known.map(({ row, status }) => [row.id, status]));
    const others = await exchangeOpinions(em, { modelsId, statuses }, freshMs);
    const moved: Moved[] = [];
    let isChanged = false;
    for (const { row, status: own, reason } of judged) {
      const status = agreedStatus(own, others.get(row.id) ?? []);
      if (status === row.status && status !== DeploymentStatus.PENDING) continue;
      isChanged = true;
      if (status !== row.status) {
        row.statusChangedAt = new Date(clock.now());
        moved.push({ deployment: row.id, before: nameOf(row.status), status: nameOf(status), reason });
      }
      if (status === DeploymentStatus.PENDING) observations.get(row.id)?.health.reasonTold(clock.monotonic());
      row.status = status;
      // What another process has its doubts about stays as it told it.
      const isDoubtOfOther = own === DeploymentStatus.RUNNING && status !== own;
      if (!isDoubtOfOther) row.statusReason = reason;
    }
    if (!isChanged) return null;
    await touchCatalog(em);
    return moved;
  });

const currentStates = (snapshot: ModelsDeps['feed']['snapshot']): States =>
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
