import type { ServiceImpl } from '@connectrpc/connect';
import type { DeploymentSettings } from '#gen/modelgateway/models/v1/model_pb.ts';
import type { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Logger } from '#shared/logger.ts';
import type { CatalogFeed } from './catalog/catalog-feed.ts';
import type { Upstream } from './upstream/upstream.ts';

/** What Models' RPCs depend on; assembled in start.ts. */
export type ModelsDeps = {
  database: ServiceDatabase;
  feed: CatalogFeed;
  clock: Clock;
  logger: Logger;
  /** Looks up a deployment's secret reference; undefined when there is no such secret. */
  upstreamSecret(reference: string): string | undefined;
  /** Connects to what a deployment's settings name; the caller closes it. */
  connectUpstream(settings: DeploymentSettings): Upstream;
  /** A retirement was announced, dated, moved or withdrawn: the reminder worker should look. */
  onRetirementChange(): void;
};

/** The implementation of one RPC. */
export type ModelsRpc<Name extends keyof ServiceImpl<typeof ModelsService>> = ServiceImpl<typeof ModelsService>[Name];
