/*
 * How many charges per second Billing posts to the ledger, and what they cost: `node test/bench/billing.ts [charges] [organizations]`, by
 * default 50,000 and 200. Charges are sent by RPC, in batches as Usage sends them; then each organization has lots to draw on, and in the
 * last part each event settles a lease. CPU is that of this process, which in `npm start` is the gateway's own, and of Postgres. One waits
 * for the other, so the sum gives the number per second when nothing else runs on the machine; the observed number is printed next to it.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import type { Client } from '@connectrpc/connect';
import { type BillingService as Billing, BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { PriceRatesSchema } from '#gen/modelgateway/models/v1/model_pb.ts';
import { type UsageEvent, UsageEventSchema } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { databaseNow } from '#shared/db/database-now.ts';
import { startEmbeddedPostgres } from '#shared/db/embedded.ts';
import { migrateAll } from '#shared/db/migrate.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { uuidv7 } from '#shared/ids.ts';
import { createLogger } from '#shared/logger.ts';
import { CallerKind, CallerSchema, callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import { billingEntities } from '../../services/billing/db/entities.ts';
import { migrations } from '../../services/billing/db/migrations/index.ts';
import { billingService } from '../../services/billing/index.ts';
import { createRecalls } from '../../services/billing/leasing/recalls.ts';
import { localClient } from '../support/local-client.ts';
import { cpuMsOfTree } from './machine.ts';

const chargeCount = Number(process.argv[2] ?? 50_000);
const tenantCount = Number(process.argv[3] ?? 200);
const priceVersionId = '01900000-0000-7000-8000-000000000001';
const models = ['small-chat', 'large-chat', 'embedder', 'code'];

const print = (line: string) => process.stdout.write(`${line}\n`);
const tenants = Array.from({ length: tenantCount }, () => ({
  tenantId: uuidv7(),
  userId: uuidv7(),
  apiKeyId: uuidv7(),
}));

function eventOf(index: number, leaseIds: string[] = []): UsageEvent {
  const inputTokens = BigInt(500 + (index % 997));
  return create(UsageEventSchema, {
    id: uuidv7(),
    ...tenants[index % tenantCount]!,
    model: models[index % models.length]!,
    endpoint: '/v1/chat/completions',
    success: true,
    status: 200,
    priceVersionId,
    leaseIds,
    usage: { inputTokens, outputTokens: 200n, costNanoUsd: inputTokens * 1_000n + 600_000n },
  });
}

const service = { contextValues: callerContext(serviceCaller('usage')), timeoutMs: 60_000 };
const operator = { contextValues: callerContext(create(CallerSchema, { kind: CallerKind.SERVICE, operator: true })) };

/** Charges events in batches, one after the other, and prints how fast and at what cost. */
async function charge(billing: Client<typeof Billing>, name: string, batchSize: number, events: UsageEvent[]) {
  const startedMs = performance.now();
  const before = process.cpuUsage();
  const postgresBeforeMs = cpuMsOfTree(postgres.pid());
  let charged = 0;
  for (let at = 0; at < events.length; at += batchSize) {
    charged += (await billing.charge({ events: events.slice(at, at + batchSize) }, service)).charged;
  }
  const seconds = (performance.now() - startedMs) / 1_000;
  const { user, system } = process.cpuUsage(before);
  if (charged !== events.length) throw new Error(`${charged} of ${events.length} were charged`);
  const cpuUs = (user + system) / charged;
  const postgresUs = ((cpuMsOfTree(postgres.pid()) - postgresBeforeMs) * 1_000) / charged;
  const rate = (perSecond: number) => Math.round(perSecond).toLocaleString('en-US').padStart(7);
  print(
    `${name.padEnd(32)} ${cpuUs.toFixed(1).padStart(6)} + ${postgresUs.toFixed(1).padStart(6)} µs of CPU each: ${rate(1e6 / (cpuUs + postgresUs))} a second; seen ${rate(charged / seconds)}`,
  );
}

/** Leases a slice for each tenant's key, as an edge holds it. */
async function slices(billing: Client<typeof Billing>): Promise<string[]> {
  const leaseIds: string[] = [];
  for (const tenant of tenants) {
    const leaseId = uuidv7();
    leaseIds.push(leaseId);
    const demand = { kind: BudgetKind.API_KEY, leaseId, limitNanoUsd: 10n ** 15n, sliceNanoUsd: 10n ** 12n };
    const request = { holderId: uuidv7(), ...tenant, costMaxNanoUsd: 10n ** 6n, demands: [demand] };
    await billing.lease({ ...request, timeToLive: { seconds: 3_600n } }, service);
  }
  return leaseIds;
}

const logger = createLogger({ level: 'error', name: 'bench' });
const dataDir = mkdtempSync(join(tmpdir(), 'mg-bench-billing-'));
const postgres = await startEmbeddedPostgres({ dataDir, logger });
try {
  await migrateAll(postgres.url, [{ service: 'billing', migrations }], logger);
  const database = await openServiceDatabase({
    service: 'billing',
    connection: postgres.url,
    entities: billingEntities,
    logger,
  });
  const rates = { inputPerMillionNanoUsd: 1_000_000_000n, outputPerMillionNanoUsd: 3_000_000_000n };
  const known = new Map([[priceVersionId, create(PriceRatesSchema, rates)]]);
  const implementation = billingService({
    database,
    databaseNow,
    prices: { ratesOf: async () => known },
    recalls: createRecalls(),
    auth: { getTenants: () => Promise.reject(new Error('no payment comes here')) },
    rateLimits: { watch: async function* () {} },
    paymentProviders: new Map(),
    metrics: { ledgerVerified() {}, paymentUnbooked() {} },
    logger,
  });
  const billing = localClient(BillingService, implementation, logger);

  const events = (count: number, leaseOf: (index: number) => string[] = () => []) =>
    Array.from({ length: count }, (_, index) => eventOf(index, leaseOf(index)));
  await charge(billing, 'warming up', 1_000, events(5_000));
  await charge(billing, 'PAYG, batches of 1,000', 1_000, events(chargeCount));
  await charge(billing, 'PAYG, batches of 50', 50, events(chargeCount / 10));
  const leaseIds = await slices(billing);
  await charge(
    billing,
    'under leases, batches of 1,000',
    1_000,
    events(chargeCount, (index) => [leaseIds[index % tenantCount]!]),
  );
  for (const { tenantId } of tenants) {
    for (const source of [LotSource.PURCHASE, LotSource.PROMOTION]) {
      await billing.grantCredit({ requestId: uuidv7(), tenantId, source, amountNanoUsd: 10n ** 12n }, operator);
    }
  }
  await charge(billing, 'from credit, batches of 1,000', 1_000, events(chargeCount));

  const { faults, transactionsChecked } = await billing.verifyLedger({}, { ...service, timeoutMs: 600_000 });
  print(`the ledger is ${faults.length === 0 ? 'sound' : 'WRONG'}: ${transactionsChecked} transactions`);
  await database.close();
} finally {
  await postgres.stop();
  rmSync(dataDir, { recursive: true, force: true });
}
