import type { Client } from '@connectrpc/connect';
import type { Registry } from 'prom-client';
import type { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import type { SigningKey } from '#gen/modelgateway/auth/v1/signing_key_pb.ts';
import type { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import type { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import type { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { Logger } from '#shared/logger.ts';
import type { Credentials } from './guards/access.ts';
import type { Readiness } from './http/health.ts';

/** What the edge is given: clients of the services, and the parts of the process which it shares. */
export type EdgeDeps = {
  keys: Client<typeof KeysService>;
  auth: Client<typeof AuthService>;
  usage: Client<typeof UsageService>;
  billing: Client<typeof BillingService>;
  models: Client<typeof ModelsService>;
  inference: Client<typeof InferenceService>;
  jobs: Client<typeof JobsService>;
  credentials: Credentials;
  /** The public keys of session tokens that are accepted now or soon. @throws OVERLOADED when none are known. */
  signingKeys: () => Promise<readonly SigningKey[]>;
  readiness: Readiness;
  registry: Registry;
  /** What `/metrics` answers. */
  metricsText: () => Promise<string>;
  clock: Clock;
  logger: Logger;
  /** How much memory each kind of large body may take, in bytes. */
  bodiesBytesMax: number;
  /** Origin of links in headers and pages, without a trailing slash. */
  publicUrl: string;
  /** SERVICE_SECRET, the one in use first: seals client secrets of realtime sessions. */
  serviceSecrets: readonly string[];
  /** Where uploads are spooled to. */
  uploadsDir: string;
  /** The built portal, served at `/`; undefined: no portal is served. */
  portalDirectory?: string;
  /** Peers whose X-Forwarded-For is believed; empty: none. */
  trustedProxies: readonly string[];
  /** How long a connection waits for its client's next request, in milliseconds: longer than a proxy in front keeps it open. */
  keepAliveMs: number;
};
