import { create, equals } from '@bufbuild/protobuf';
import {
  type Deployment,
  type DeploymentSettings,
  DeploymentSettingsSchema,
  DeploymentStatus,
  SandboxSettingsSchema,
} from '#gen/modelgateway/models/v1/model_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { Logger } from '#shared/logger.ts';
import { type FailureLogger, RepeatedFailures } from '#shared/repeated-failures.ts';
import { oneLine } from '#shared/safe-text.ts';
import { Breaker } from '../domain/breaker.ts';
import { type HealthReport, isServing } from '../domain/deployment-health.ts';
import { effectiveSettings } from '../domain/deployment-settings.ts';
import type { RoutableDeployment, Turns } from '../domain/routing.ts';
import type { Upstream } from '../upstream/upstream.ts';

/** The longest that a deployment is spared because it asked for it, in milliseconds. */
const coolingMsMax = 30_000;
/** How long it is asked without a field that it refused, in milliseconds: its server may meanwhile be another, or a later version. */
const refusedFieldsMs = 3_600_000;
const noFields: ReadonlySet<AddedField> = new Set();
const noKnobs = create(SandboxSettingsSchema);

/** What one call, or one probe, says about a deployment. */
export type Verdict =
  /** Answered properly; refusing a bad request counts as well. */
  | { kind: 'good' }
  /** Failed, and the deployment is to blame. */
  | { kind: 'bad'; message: string }
  /** At its rate limit: not a fault, but others come first. */
  | { kind: 'busy'; retryAfterMs: number }
  /** Says nothing: the client left before there was an answer, or asked for something that does not exist. */
  | { kind: 'none' };

/** Counts what a deployment is given; `ms` is the time until its answer began. */
export type RunMetrics = { answered(ms: number): void; ended(kind: Verdict['kind']): void };

/** One call that a deployment runs. */
export type Run = {
  /** It is being answered, whatever the body brings: reason enough to let others through again. */
  answered(): void;
  /** Called exactly once. */
  end(verdict: Verdict): void;
};

/** A field that the gateway adds to requests, and that some upstreams refuse. */
export type AddedField = 'stream_options' | 'max_completion_tokens';

/** What calls and probes have shown of an upstream. */
class Seen {
  readonly breaker = new Breaker();
  /** Not told of successes: one that fails a tenth of its calls has them in between, and its status says when it is well again. */
  readonly logged: RepeatedFailures;
  coolingUntilMs = Number.NEGATIVE_INFINITY;
  lastSuccessMs = Number.NEGATIVE_INFINITY;
  /** Since they were last reported. */
  successes = 0;
  failures = 0;
  lastError = '';
  refusedFields = noFields;
  refusedUntilMs = Number.NEGATIVE_INFINITY;

  constructor(logger: FailureLogger) {
    this.logged = new RepeatedFailures('a deployment', logger, 0);
  }
}

/** A deployment at work in this process: its upstream, its load, its breaker and its observed health. */
export class DeploymentRuntime implements RoutableDeployment {
  readonly id: string;
  readonly model: string;
  /** The model's name at the upstream. */
  readonly upstreamModel: string;
  readonly settings: DeploymentSettings;
  readonly priority: number;
  readonly weight: number;
  readonly concurrencyMax: number;
  readonly headTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly totalTimeoutMs: number;
  readonly upstream: Upstream;
  status: DeploymentStatus;
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #metrics: RunMetrics;
  /** Also by calls that began before its settings were changed. */
  readonly #seen: Seen;
  /** What its server runs for it, with calls that began before its settings were changed. */
  readonly #load: { inFlight: number };
  readonly #turns: Turns;
  #turn = 0;
  /** Calls that began under these settings and have not ended. */
  #running = 0;
  #retired = false;

  /** `before`: the same deployment with other settings; `turns` are those of its model. */
  constructor(
    deployment: Deployment,
    { upstream, turns, before }: { upstream: Upstream; turns: Turns; before: DeploymentRuntime | undefined },
    deps: { clock: Pick<Clock, 'monotonic'>; metrics: RunMetrics; logger: Pick<Logger, 'child'> },
  ) {
    const settings = effectiveSettings(deployment.settings!);
    this.id = deployment.id;
    this.model = deployment.model;
    this.upstreamModel = settings.upstreamModel || deployment.model;
    this.settings = deployment.settings!;
    this.priority = settings.priority;
    this.weight = Math.max(1, settings.weight);
    this.concurrencyMax = settings.concurrencyLimit;
    this.headTimeoutMs = settings.firstByteTimeoutMs;
    this.idleTimeoutMs = settings.idleTimeoutMs;
    this.totalTimeoutMs = settings.totalTimeoutMs;
    this.upstream = upstream;
    this.status = deployment.status;
    const isSameServer = before !== undefined && before.settings.baseUrl === settings.baseUrl;
    this.#load = isSameServer ? before.#load : { inFlight: 0 };
    this.#seen = before?.hasUpstreamOf(this)
      ? before.#seen
      : new Seen(deps.logger.child({ model: this.model, deployment: this.id }));
    this.#turns = turns;
    this.#clock = deps.clock;
    this.#metrics = deps.metrics;
  }

  get available(): boolean {
    return (
      this.upstream.fault === undefined && isServing(this.status) && this.#seen.breaker.admits(this.#clock.monotonic())
    );
  }

  /** Requests that its server runs now. */
  get inFlight(): number {
    return this.#load.inFlight;
  }

  get turn(): number {
    return this.#turns.next(this.#turn);
  }

  get cooling(): boolean {
    return this.#clock.monotonic() < this.#seen.coolingUntilMs;
  }

  /** The fields that the gateway adds and with which its upstream was just seen to refuse a request that it answered without. */
  get refusedFields(): ReadonlySet<AddedField> {
    return this.#clock.monotonic() < this.#seen.refusedUntilMs ? this.#seen.refusedFields : noFields;
  }

  set refusedFields(fields: ReadonlySet<AddedField>) {
    this.#seen.refusedFields = fields;
    this.#seen.refusedUntilMs = this.#clock.monotonic() + refusedFieldsMs;
  }

  /** Monotonic milliseconds of the last success; minus infinity before the first. */
  get lastSuccessMs(): number {
    return this.#seen.lastSuccessMs;
  }

  /** Whether it failed lately, or is not known to serve: then it is probed more often. */
  get isDoubtful(): boolean {
    return this.status !== DeploymentStatus.RUNNING || this.#seen.breaker.consecutiveFailures > 0;
  }

  hasSettings(settings: DeploymentSettings): boolean {
    return equals(DeploymentSettingsSchema, this.settings, settings);
  }

  /** Whether what was seen of the upstream of one is true of the other's. */
  hasUpstreamOf({ settings, upstreamModel }: DeploymentRuntime): boolean {
    const { baseUrl, secretReference, dialect, sandbox } = this.settings;
    return (
      upstreamModel === this.upstreamModel &&
      settings.baseUrl === baseUrl &&
      settings.secretReference === secretReference &&
      settings.dialect === dialect &&
      equals(SandboxSettingsSchema, settings.sandbox ?? noKnobs, sandbox ?? noKnobs)
    );
  }

  /** A call begins. */
  start(): Run {
    this.#load.inFlight++;
    this.#running++;
    this.#turn = this.#turns.taken(this.#turn, this.weight);
    const startedMs = this.#clock.monotonic();
    const isTrial = this.#seen.breaker.begin(startedMs);
    return {
      answered: () => {
        const nowMs = this.#clock.monotonic();
        this.#metrics.answered(nowMs - startedMs);
        this.#seen.breaker.answered(nowMs, startedMs);
      },
      end: (verdict) => {
        if (isTrial) this.#seen.breaker.endTrial(startedMs);
        this.#judge(verdict, startedMs);
        this.#metrics.ended(verdict.kind);
        this.#load.inFlight--;
        this.#running--;
        if (this.#retired && this.#running === 0) void this.close();
      },
    };
  }

  /** Records the verdict of a call, which began at `startedMs` on the monotonic clock. */
  #judge(verdict: Verdict, startedMs: number): void {
    const nowMs = this.#clock.monotonic();
    switch (verdict.kind) {
      case 'good':
        this.#seen.breaker.succeed(nowMs, startedMs);
        this.#succeeded(nowMs);
        return;
      case 'bad':
        this.#failed(nowMs, verdict.message, startedMs);
        return;
      case 'busy':
        this.#seen.coolingUntilMs = Math.max(
          this.#seen.coolingUntilMs,
          nowMs + Math.min(verdict.retryAfterMs, coolingMsMax),
        );
        return;
      case 'none':
        return;
      default:
        verdict satisfies never;
    }
  }

  /** Records a probe. A successful one closes no breaker, since an upstream may list its models and yet fail all calls. */
  probed(failure: string | null): void {
    // The closing of its upstream breaks a probe off.
    if (this.#retired) return;
    const nowMs = this.#clock.monotonic();
    if (failure === null) this.#succeeded(nowMs);
    else this.#failed(nowMs, failure);
  }

  /** What was seen since the last call of this method. */
  takeHealth(): HealthReport {
    const health = {
      successes: this.#seen.successes,
      failures: this.#seen.failures,
      consecutiveFailures: this.#seen.breaker.consecutiveFailures,
      ejected: this.#seen.breaker.state(this.#clock.monotonic()) === 'open',
      lastError: this.#seen.lastError,
    };
    this.#seen.successes = 0;
    this.#seen.failures = 0;
    return health;
  }

  #succeeded(nowMs: number): void {
    this.#seen.successes += 1;
    this.#seen.lastSuccessMs = nowMs;
  }

  #failed(nowMs: number, message: string, startedMs = nowMs): void {
    const error = oneLine(message.slice(0, 500));
    // A repeated failure is reported once: a dead deployment is probed every two seconds.
    if (this.#seen.breaker.consecutiveFailures === 0 || error !== this.#seen.lastError)
      this.#seen.logged.failed(error, 'failed');
    this.#seen.breaker.fail(nowMs, startedMs);
    this.#seen.failures += 1;
    this.#seen.lastError = error;
  }

  /** Whether it takes no more requests, since it was removed or opened anew. */
  get isRetired(): boolean {
    return this.#retired;
  }

  /** Takes no more requests, and closes once those that run have ended. */
  retire(): void {
    this.#retired = true;
    this.status = DeploymentStatus.STOPPED;
    if (this.#running === 0) void this.close();
  }

  close(): Promise<void> {
    return this.upstream.close();
  }
}
