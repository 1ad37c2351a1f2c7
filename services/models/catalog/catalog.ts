import type { CatalogModel, CatalogSnapshot } from '#gen/modelgateway/models/v1/catalog_pb.ts';
import { type Deployment, Visibility } from '#gen/modelgateway/models/v1/model_pb.ts';
import type { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { Retirement } from '#gen/modelgateway/models/v1/retirement_pb.ts';
import type { Clock } from '#shared/clock.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import type { Logger } from '#shared/logger.ts';
import { isServing } from '../domain/deployment-health.ts';
import type { PriceVersion } from '../domain/price.ts';
import type { RetirementSchedule } from '../domain/retirement.ts';
import { RetryBudget } from '../domain/retry-budget.ts';
import { Turns } from '../domain/routing.ts';
import type { Upstream } from '../upstream/upstream.ts';
import { DeploymentRuntime, type RunMetrics } from './deployment-runtime.ts';
import { priceVersion, retirementSchedule } from './read-messages.ts';

/** A model in the form the inference part needs: everything looked up and compiled when the snapshot arrived. */
export type ServedModel = {
  /** Another one for a model made anew under the same name. */
  id: string;
  name: string;
  operations: ReadonlySet<Operation>;
  /** Organizations that may use it; null: all. */
  grantedTenants: ReadonlySet<string> | null;
  retirement: RetirementSchedule | null;
  /** The same in the form that clients are told. */
  publishedRetirement: Retirement | undefined;
  /** In tokens; 0: unknown. */
  contextWindow: number;
  maxOutputTokens: number;
  /** Sorted by the moment from which they hold. */
  prices: readonly PriceVersion[];
  deployments: readonly DeploymentRuntime[];
  retryBudget: RetryBudget;
  /** Whose turn it is among its deployments. */
  turns: Turns;
};

/** How long clients are told to wait when the process has no catalog yet, in milliseconds. */
const noCatalogRetryMs = 5_000;

type CatalogDeps = {
  /** Connects a deployment to the server, or sandbox, that answers it. */
  openUpstream(deployment: Deployment): Upstream;
  metricsOf(model: string, deployment: string): RunMetrics;
  clock: Pick<Clock, 'monotonic'>;
  logger: Pick<Logger, 'child' | 'error'>;
};

/**
 * The models of one process, replaced as a whole by each snapshot of the feed. A deployment outlives snapshots by its id, so its load and
 * breaker are kept; one whose settings changed is opened anew, with the load of its server and what was seen of its upstream, and the old
 * one is closed when its requests have ended.
 */
export class Catalog {
  readonly #deps: CatalogDeps;
  #models: ReadonlyMap<string, ServedModel> = new Map();
  #runtimes = new Map<string, DeploymentRuntime>();
  /** Those that were stopped or removed while their servers run calls for them: one that is started again has that load. */
  readonly #leaving = new Map<string, DeploymentRuntime>();
  #version = -1n;

  constructor(deps: CatalogDeps) {
    this.#deps = deps;
  }

  /** The version of the snapshot in force; -1 before the first. */
  get version(): bigint {
    return this.#version;
  }

  /** Throws OVERLOADED before the first snapshot: until then nobody knows which models there are. */
  requireSnapshot(): void {
    if (this.#version >= 0n) return;
    throw gatewayError(ErrorReason.OVERLOADED, 'The gateway has not loaded its models yet. Try again shortly.', {
      retryAfterMs: noCatalogRetryMs,
      internal: 'no catalog has come from Models since the start',
    });
  }

  /** The model of this name; undefined when there is none. Throws as requireSnapshot does. */
  find(name: string): ServedModel | undefined {
    this.requireSnapshot();
    return this.#models.get(name);
  }

  /** A model as it is now, or, once it is deleted, as it was. */
  current(model: ServedModel): ServedModel {
    const now = this.#models.get(model.name);
    return now?.id === model.id ? now : model;
  }

  all(): Iterable<ServedModel> {
    return this.#models.values();
  }

  /** All deployments that may serve. */
  deployments(): Iterable<DeploymentRuntime> {
    return this.#runtimes.values();
  }

  /** Takes over a snapshot; one older than the current one changes nothing. */
  replace(snapshot: CatalogSnapshot): void {
    if (snapshot.version < this.#version) return;
    const runtimes = new Map<string, DeploymentRuntime>();
    this.#models = new Map(
      snapshot.models.map(
        (entry) => [entry.model!.name, this.#served(entry, runtimes)] satisfies [string, ServedModel],
      ),
    );
    for (const [id, runtime] of this.#runtimes) {
      if (runtimes.get(id) === runtime) continue;
      runtime.retire();
      this.#leaving.set(id, runtime);
    }
    for (const [id, { inFlight }] of this.#leaving) if (inFlight === 0 || runtimes.has(id)) this.#leaving.delete(id);
    this.#runtimes = runtimes;
    this.#version = snapshot.version;
  }

  /** Closes every upstream. */
  async close(): Promise<void> {
    await Promise.all([...this.#runtimes.values()].map((runtime) => runtime.close()));
    this.#runtimes.clear();
    this.#models = new Map();
  }

  #served(entry: CatalogModel, runtimes: Map<string, DeploymentRuntime>): ServedModel {
    const model = entry.model!;
    const { retryBudget = new RetryBudget(), turns = new Turns() } = this.#models.get(model.name) ?? {};
    return {
      id: model.id,
      name: model.name,
      operations: new Set(model.operations),
      grantedTenants: model.visibility === Visibility.PRIVATE ? new Set(entry.grantedTenantIds) : null,
      retirement: model.retirement === undefined ? null : retirementSchedule(model.retirement),
      publishedRetirement: model.retirement,
      contextWindow: model.contextWindow,
      maxOutputTokens: model.maxOutputTokens,
      prices: entry.prices.map(priceVersion).sort((a, b) => a.effectiveFromMs - b.effectiveFromMs),
      deployments: entry.deployments
        .filter((deployment) => deployment.settings!.enabled !== false)
        .map((deployment) => this.#runtime(deployment, turns, runtimes)),
      retryBudget,
      turns,
    };
  }

  #runtime(deployment: Deployment, turns: Turns, runtimes: Map<string, DeploymentRuntime>): DeploymentRuntime {
    let runtime = this.#runtimes.get(deployment.id);
    if (runtime === undefined || !runtime.hasSettings(deployment.settings!)) {
      const { openUpstream, metricsOf, clock, logger } = this.#deps;
      const metrics = metricsOf(deployment.model, deployment.id);
      const upstream = openUpstream(deployment);
      const before = runtime ?? this.#leaving.get(deployment.id);
      runtime = new DeploymentRuntime(deployment, { upstream, turns, before }, { clock, metrics, logger });
      const { fault } = upstream;
      if (fault !== undefined)
        logger.error(
          { model: deployment.model, deployment: deployment.id, fault },
          'a deployment gets no calls from this process',
        );
    }
    runtime.status = deployment.status;
    runtimes.set(deployment.id, runtime);
    return runtime;
  }
}

/** Whether an organization may know of a model at all. */
export const isGranted = (model: ServedModel, tenantId: string): boolean =>
  model.grantedTenants === null || model.grantedTenants.has(tenantId);

/** Whether a deployment of the model is serving. */
export const isServiceable = (model: ServedModel): boolean => model.deployments.some(({ status }) => isServing(status));
