import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client, ServiceImpl } from '@connectrpc/connect';
import type { Registry } from 'prom-client';
import type { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import type { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { Logger } from '#shared/logger.ts';
import { RepeatedFailures } from '#shared/repeated-failures.ts';
import { asService } from '#shared/rpc/caller.ts';
import { inDataDir } from '#shared/start-error.ts';
import { Catalog } from './catalog/catalog.ts';
import { followCatalog } from './catalog/follow.ts';
import type { ModelsDeps } from './deps.ts';
import { watchHealth } from './health/watch-health.ts';
import { AnswerRoom } from './inference/answer-room.ts';
import { createCallTools } from './inference/call-tools.ts';
import { inferenceService } from './inference/index.ts';
import { Budgets } from './limits/budgets.ts';
import { settleIntervalMs } from './limits/lease-settler.ts';
import { followRateLimits, RateLimitBook } from './limits/rate-limit-book.ts';
import { grantReportMs, RateLimitGrants } from './limits/rate-limit-grants.ts';
import { RateLimiter } from './limits/rate-limiter.ts';
import { type Journal, openJournal } from './metering/journal.ts';
import { type MeteredEvent, type MeteredProgress, meteredEventCodec, usageEvent } from './metering/metered-event.ts';
import { adoptOrphans, damagedSegments, takeBackDamaged } from './metering/orphans.ts';
import { createShipper } from './metering/shipper.ts';
import {
  catalogMetrics,
  countingTokens,
  feedMetrics,
  meteringMetrics,
  refusedSound,
  shipperMetrics,
  upstreamMetrics,
} from './metrics.ts';
import { HeardRoom } from './realtime/heard-room.ts';

export type StartedInference = {
  implementation: ServiceImpl<typeof InferenceService>;
  /** The version of the catalog that calls are decided by; -1 before the first. */
  catalogVersion(): bigint;
  /**
   * Resolves once calls can be decided as on any other edge: with the first catalog and, unless they are late, the rate limits. Also
   * resolves at the end.
   */
  prepared: Promise<void>;
  isPrepared(): boolean;
  /** False while the journal takes no entries, so that calls are refused too. */
  takesCalls(): boolean;
  close(): Promise<void>;
};

/** How often journals of dead processes are looked for. */
const adoptionIntervalMs = 10_000;

/** How long the last events may take to reach Usage when the process ends; the next process ships the rest. */
const lastShipmentMs = 3_000;
/** How long calls that were broken off may take to end, and how often that is looked at, in milliseconds. */
const lastEndsMs = 1_000;
const endPollMs = 5;

/** How long a start waits for the catalog, and then for the organizations' rate limits. */
const catalogWaitMs = 2_000;
const limitsWaitMs = 2_000;

/**
 * Starts the inference part, which every edge process carries: the catalog's follower, the journal and its shipper. While Models is out of
 * reach, calls are refused with OVERLOADED.
 */
export async function startInference(options: {
  models: Client<typeof ModelsService>;
  usage: Client<typeof UsageService>;
  billing: Client<typeof BillingService>;
  connectUpstream: ModelsDeps['connectUpstream'];
  dataDir: string;
  journalSync: 'group' | 'always';
  clock: Clock;
  logger: Logger;
  registry: Registry;
  /** How much memory each kind of large body may take, in bytes. */
  bodiesBytesMax: number;
  /** The journal can no longer keep its promises: the process must end. */
  onFatal(error: Error): void;
}): Promise<StartedInference> {
  const { models, usage, billing, clock, logger, registry } = options;
  // If the start fails, everything opened is closed again, last first; otherwise `close` does so.
  await using opened = new AsyncDisposableStack();
  const catalog = new Catalog({
    openUpstream: (deployment) => options.connectUpstream(deployment.settings!),
    metricsOf: upstreamMetrics(registry),
    clock,
    logger,
  });
  opened.defer(() => catalog.close());
  const directory = join(options.dataDir, 'journal');
  const journal = inDataDir(options.dataDir, () =>
    openJournal({
      directory,
      codec: meteredEventCodec,
      clock,
      logger,
      sync: options.journalSync,
      onFatal: options.onFatal,
    }),
  );
  opened.defer(() => journal.close());
  const budgets = new Budgets({ billing, clock, logger });
  opened.defer(() => budgets.close());
  const settling = setInterval(() => void budgets.tick(), settleIntervalMs);
  opened.defer(() => clearInterval(settling));

  const rateLimits = new RateLimitBook();
  const followingLimits = followRateLimits({ book: rateLimits, billing, logger });
  opened.defer(() => followingLimits.close());
  const limiter = new RateLimiter(clock.monotonic);
  const grants = new RateLimitGrants({ limiter, usage, logger });
  const granting = setInterval(() => void grants.tick(), grantReportMs);
  opened.defer(() => clearInterval(granting));

  const shipping = startShipping({ journal, directory, usage, clock, logger, registry });
  opened.defer(() => shipping.close());
  const following = followCatalog({ catalog, models, logger });
  opened.defer(() => following.close());
  const health = watchHealth({ catalog, models, clock, logger });
  opened.defer(() => health.close());
  catalogMetrics(registry, catalog);
  feedMetrics(registry, { catalog: following, rate_limits: followingLimits });
  meteringMetrics(registry, journal, {
    damagedSegments: () => damagedSegments(directory).length,
    shippingLagMs: shipping.lagMs,
    budgets,
  });

  let isPrepared = false;
  const prepared = following.first
    // Neither is worth failing a start: without them the platform's limits hold, unshared.
    .then(() => within(limitsWaitMs, Promise.all([followingLimits.first, grants.tick()])))
    .then(() => {
      isPrepared = true;
    });
  await within(catalogWaitMs, prepared);
  const tools = createCallTools(clock);
  opened.defer(() => tools.close());
  opened.defer(() => untilEnded(journal));
  const closing = opened.move();
  return {
    implementation: inferenceService({
      catalog,
      limiter,
      rateLimits,
      budgets,
      journal: countingTokens(registry, journal),
      clock,
      logger,
      tools,
      answerRoom: new AnswerRoom(options.bodiesBytesMax),
      heardRoom: new HeardRoom(options.bodiesBytesMax, refusedSound(registry)),
    }),
    catalogVersion: () => catalog.version,
    prepared,
    isPrepared: () => isPrepared,
    takesCalls: () => journal.healthy,
    close: () => closing.disposeAsync(),
  };
}

/** Waits for calls that were broken off by the end of their connections: what they used is shipped with the last events. */
async function untilEnded(journal: Journal<MeteredEvent, MeteredProgress>): Promise<void> {
  const lateMs = performance.now() + lastEndsMs;
  while (journal.stats().openEvents > 0 && performance.now() < lateMs) await delay(endPollMs);
}

/** Ships to Usage what this process's journal holds, and what processes that have died left in theirs. */
function startShipping(deps: {
  journal: Journal<MeteredEvent, MeteredProgress>;
  directory: string;
  usage: Client<typeof UsageService>;
  clock: Clock;
  logger: Logger;
  registry: Registry;
}): { lagMs(): number; close(): Promise<void> } {
  const { journal, directory, usage, clock, logger, registry } = deps;
  const shipper = createShipper({
    journal,
    record: async (events, signal) => {
      const options = { ...asService('inference'), signal };
      return (await usage.record({ events: events.map(usageEvent) }, options)).rejected;
    },
    logger,
  });
  shipperMetrics(registry, shipper.stats);
  const failures = new RepeatedFailures('taking over the journals of ended processes', logger, 0);
  const adopt = (): void => {
    const orphans = adoptOrphans({ directory, codec: meteredEventCodec, clock, logger, failures });
    for (const orphan of orphans) shipper.adopt(orphan);
  };
  takeBackDamaged({ directory, failures });
  adopt();
  const adoption = setInterval(adopt, adoptionIntervalMs);
  return {
    lagMs: () => shipper.lagMs(clock.monotonic()),
    async close() {
      clearInterval(adoption);
      await shipper.close(lastShipmentMs);
    },
  };
}

/** Waits for something, but at most this long. */
const within = async (ms: number, awaited: Promise<unknown>): Promise<void> => {
  await Promise.race([awaited, delay(ms, undefined, { ref: false })]);
};
