import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { uuidv7 } from '#shared/ids.ts';
import { CallerKind, CallerSchema, callerContext } from '#shared/rpc/caller.ts';
import { rpcService } from '#shared/rpc/rpc-service.ts';
import { startTestGateway } from '../../test/support/gateway.ts';
import { createTestDatabase, rowsOf } from '../../test/support/postgres.ts';
import { carry, logCollector } from '../../test/support/rpc-carriers.ts';
import { startUpstreamSimulator } from '../../test/support/upstream-simulator.ts';
import { startInference } from './start-inference.ts';
import { connectUpstream } from './upstream/connect.ts';

test('a call that breaks off as the process ends is in Usage before it has ended', async () => {
  await using database = await createTestDatabase();
  await using simulator = await startUpstreamSimulator();
  await using bench = await startTestGateway({ databaseUrl: database.url, env: { UPSTREAM_BASE_URL: simulator.url } });
  const { switchboard } = bench.gateway;
  const dataDir = mkdtempSync(join(tmpdir(), 'start-inference-'));
  const { logger, lines } = logCollector();
  const inference = await startInference({
    models: switchboard.client('inference', ModelsService),
    usage: switchboard.client('inference', UsageService),
    billing: switchboard.client('inference', BillingService),
    connectUpstream: connectUpstream({ clock: systemClock, secret: () => undefined }),
    dataDir,
    journalSync: 'group',
    clock: systemClock,
    logger,
    registry: new Registry(),
    bodiesBytesMax: 1024 ** 3,
    onFatal(error) {
      throw error;
    },
  });
  await using rpc = await carry('local', [
    rpcService(InferenceService, inference.implementation, { callers: ['edge'] }),
  ]);
  const caller = create(CallerSchema, { kind: CallerKind.SESSION, tenantId: uuidv7(), userId: uuidv7() });
  simulator.next({ hold: { until: new Promise(() => {}), afterChunks: 3 } });
  const body = JSON.stringify({ model: 'sim-chat', stream: true, messages: [{ role: 'user', content: 'Hi' }] });
  const client = new AbortController();
  const answer = rpc
    .client(InferenceService)
    .invoke(
      { operation: Operation.CHAT_COMPLETIONS, contentType: 'application/json', body: Buffer.from(body) },
      { contextValues: callerContext(caller), signal: client.signal },
    )
    [Symbol.asyncIterator]();
  await answer.next();
  client.abort();
  await inference.close();
  expect(await rowsOf(database.url, 'select error_code from usage.events')).toEqual([
    { error_code: 'client_closed_request' },
  ]);
  expect(lines.filter(({ level }) => level === 50)).toEqual([]);
  rmSync(dataDir, { recursive: true });
});
