import { DeploymentStatus } from '#gen/modelgateway/models/v1/model_pb.ts';
import { failuresToOpen } from './breaker.ts';

/** What one edge saw of one deployment since its last report (DeploymentHealth in models_service.proto). */
export type HealthReport = {
  successes: number;
  failures: number;
  consecutiveFailures: number;
  ejected: boolean;
  lastError: string;
};

/** An edge, or a Models process, that has been silent for this long no longer counts. */
export const freshMs = 15_000;
/** Why a deployment is Pending at first. */
export const notProbedYet = 'not probed yet';
/** How long errors make a deployment Degraded, so that its status does not flicker. */
const degradedMs = 10_000;
/** Errors in one report that are more than an accident: at least this many, and this share. */
const failuresMin = 2;
const failuresShareMin = 0.1;

/** Whether a deployment of this status serves (decisions.md, Models). */
export const isServing = (status: DeploymentStatus): boolean =>
  status === DeploymentStatus.RUNNING || status === DeploymentStatus.DEGRADED;

export type Judged = { status: DeploymentStatus; reason: string };

/**
 * The status by what several Models processes say, each for its own edges: it is Failed when all have given up on it, and Running when none
 * has its doubts.
 */
export const agreedStatus = (own: DeploymentStatus, others: readonly DeploymentStatus[]): DeploymentStatus =>
  others.every((other) => other === own) ? own : DeploymentStatus.DEGRADED;

/** What all edges of this process report about one deployment, and its resulting status (decisions.md, Models). Times are monotonic. */
export class DeploymentHealth {
  readonly #edges = new Map<string, HealthReport & { atMs: number }>();
  #degradedUntilMs = Number.NEGATIVE_INFINITY;
  #hasSucceeded = false;
  #lastError = '';
  #reasonToldMs = Number.NEGATIVE_INFINITY;

  take(edgeId: string, report: HealthReport, nowMs: number): void {
    this.#edges.set(edgeId, { ...report, atMs: nowMs });
    if (report.successes > 0) this.#hasSucceeded = true;
    if (report.failures > 0) this.#lastError = report.lastError;
    const share = report.failures / (report.failures + report.successes);
    if (report.failures >= failuresMin && share >= failuresShareMin) this.#degradedUntilMs = nowMs + degradedMs;
  }

  /** It was stored why the deployment is Pending. */
  reasonTold(nowMs: number): void {
    this.#reasonToldMs = nowMs;
  }

  /**
   * The status now, and why; null when nothing is known that would change it. What keeps it Degraded is told again, as others may see no
   * reason for it. Stopped is set by operators only.
   */
  judge(current: Judged, nowMs: number): Judged | null {
    for (const [edgeId, { atMs }] of this.#edges) if (nowMs - atMs > freshMs) this.#edges.delete(edgeId);
    const edges = [...this.#edges.values()];
    if (edges.length === 0 || current.status === DeploymentStatus.STOPPED) return null;
    const judged = this.#statusOf(edges, nowMs);
    const answers = isServing(current.status) || edges.some(({ successes }) => successes > 0);
    if (!answers && judged !== DeploymentStatus.FAILED) {
      // A deployment that is not serving starts to only once something succeeds, however little speaks against it.
      const isFailing = edges.some(({ failures }) => failures > 0);
      const isTold = edges.some(({ lastError }) => lastError === current.reason);
      // The edges of another process may fail otherwise, or a server say it in other words each time.
      const isSoon = nowMs - this.#reasonToldMs < freshMs && current.reason !== notProbedYet;
      const isNews = current.status === DeploymentStatus.PENDING && isFailing && !isTold && !isSoon;
      return isNews ? { status: current.status, reason: this.#lastError } : null;
    }
    if (judged === null || (judged === current.status && judged !== DeploymentStatus.DEGRADED)) return null;
    return { status: judged, reason: judged === DeploymentStatus.RUNNING ? '' : this.#lastError };
  }

  #statusOf(edges: readonly HealthReport[], nowMs: number): DeploymentStatus | null {
    if (edges.every(({ ejected }) => ejected)) return DeploymentStatus.FAILED;
    // After as many failures as open a breaker, a deployment is on trial until a call succeeds.
    const onTrial = edges.some((edge) => edge.ejected || edge.consecutiveFailures >= failuresToOpen);
    if (onTrial || nowMs < this.#degradedUntilMs) return DeploymentStatus.DEGRADED;
    return this.#hasSucceeded ? DeploymentStatus.RUNNING : null;
  }
}
