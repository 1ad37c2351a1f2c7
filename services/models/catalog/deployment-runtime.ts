import { equals } from '@bufbuild/protobuf';
import {
  type Deployment,
  type DeploymentSettings,
  DeploymentSettingsSchema,
  DeploymentStatus,
} from '#gen/modelgateway/models/v1/model_pb.ts';
import type { RoutableDeployment } from '../domain/routing.ts';
import type { Upstream } from '../upstream/upstream.ts';

const defaults = { weight: 1, priority: 0, concurrencyMax: 1000, headTimeoutMs: 120_000, idleTimeoutMs: 120_000 };

/** A deployment at work in this process: its upstream, its load and its state. */
export class DeploymentRuntime implements RoutableDeployment {
  readonly id: string;
  /** The model's name at the upstream. */
  readonly upstreamModel: string;
  readonly priority: number;
  readonly weight: number;
  readonly concurrencyMax: number;
  readonly headTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly upstream: Upstream;
  status: DeploymentStatus;
  /** Requests that it runs now. */
  inFlight = 0;
  /** Requests that it was ever given; breaks ties between equally loaded deployments. */
  assigned = 0;
  readonly #settings: DeploymentSettings;
  #retired = false;

  constructor(deployment: Deployment, upstream: Upstream) {
    const settings = deployment.settings!;
    this.id = deployment.id;
    this.upstreamModel = settings.upstreamModel || deployment.model;
    this.priority = settings.priority ?? defaults.priority;
    this.weight = Math.max(1, settings.weight ?? defaults.weight);
    this.concurrencyMax = settings.concurrencyLimit || defaults.concurrencyMax;
    this.headTimeoutMs = settings.firstByteTimeoutMs ?? defaults.headTimeoutMs;
    this.idleTimeoutMs = settings.idleTimeoutMs ?? defaults.idleTimeoutMs;
    this.upstream = upstream;
    this.status = deployment.status;
    this.#settings = settings;
  }

  get available(): boolean {
    return this.status === DeploymentStatus.RUNNING || this.status === DeploymentStatus.DEGRADED;
  }

  hasSettings(settings: DeploymentSettings): boolean {
    return equals(DeploymentSettingsSchema, this.#settings, settings);
  }

  start(): void {
    this.inFlight++;
    this.assigned++;
  }

  finish(): void {
    this.inFlight--;
    if (this.#retired && this.inFlight === 0) void this.close();
  }

  /** Takes no more requests, and closes once those that run have ended. */
  retire(): void {
    this.#retired = true;
    this.status = DeploymentStatus.STOPPED;
    if (this.inFlight === 0) void this.close();
  }

  close(): Promise<void> {
    return this.upstream.close();
  }
}
