import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import type { Client } from '@connectrpc/connect';
import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { InferenceService, type InvokeResponse } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { CallerKind, CallerSchema, callerContext } from '#shared/rpc/caller.ts';
import { rpcService } from '#shared/rpc/rpc-service.ts';
import { startTestGateway } from '../../test/support/gateway.ts';
import { createTestDatabase, rowsOf } from '../../test/support/postgres.ts';
import { carry, logCollector } from '../../test/support/rpc-carriers.ts';
import { startUpstreamSimulator } from '../../test/support/upstream-simulator.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { startInference } from './start-inference.ts';
import { connectUpstream } from './upstream/connect.ts';

/** An inference part of its own, beside a gateway whose services it calls; `billing` stands between it and Billing. */
async function startBench(
  billing: (real: Client<typeof BillingService>) => Partial<Client<typeof BillingService>> = () => ({}),
) {
  await using opened = new AsyncDisposableStack();
  const database = opened.use(await createTestDatabase());
  const simulator = opened.use(await startUpstreamSimulator());
  const { url: databaseUrl } = database;
  const bench = opened.use(await startTestGateway({ databaseUrl, env: { UPSTREAM_BASE_URL: simulator.url } }));
  const { switchboard } = bench.gateway;
  const dataDir = mkdtempSync(join(tmpdir(), 'start-inference-'));
  opened.defer(() => rmSync(dataDir, { recursive: true }));
  const { logger, lines } = logCollector();
  const realBilling = switchboard.client('inference', BillingService);
  const inference = await startInference({
    models: switchboard.client('inference', ModelsService),
    usage: switchboard.client('inference', UsageService),
    billing: { ...realBilling, ...billing(realBilling) },
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
  const rpc = opened.use(
    await carry('local', [rpcService(InferenceService, inference.implementation, { callers: ['edge'] })]),
  );
  const caller = create(CallerSchema, { kind: CallerKind.SESSION, tenantId: uuidv7(), userId: uuidv7() });
  const invoke = (stream: boolean, signal?: AbortSignal, jobId = ''): AsyncIterator<InvokeResponse> => {
    const body = Buffer.from(
      JSON.stringify({ model: 'sim-chat', stream, messages: [{ role: 'user', content: 'Hi' }] }),
    );
    const request = { operation: Operation.CHAT_COMPLETIONS, contentType: 'application/json', body, jobId };
    const options = { contextValues: callerContext(caller), signal };
    return rpc.client(InferenceService).invoke(request, options)[Symbol.asyncIterator]();
  };
  const closing = opened.move();
  return {
    ...{ database, simulator, bench, inference, invoke, lines },
    [Symbol.asyncDispose]: () => closing.disposeAsync(),
  };
}

test('a call that breaks off as the process ends is in Usage before it has ended', async () => {
  await using started = await startBench();
  const { database, simulator, inference, lines } = started;
  simulator.next({ hold: { until: new Promise(() => {}), afterChunks: 3 } });
  const client = new AbortController();
  await started.invoke(true, client.signal).next();
  client.abort();
  await inference.close();
  expect(await rowsOf(database.url, 'select error_code from usage.events')).toEqual([
    { error_code: 'client_closed_request' },
  ]);
  expect(lines.filter(({ level }) => level === 50)).toEqual([]);
});

test('a call that waited for its budget while its deployment was changed goes to the deployment as it is now', async () => {
  const asked = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  await using started = await startBench((real) => ({
    async lease(...call) {
      asked.resolve();
      await goOn.promise;
      return real.lease(...call);
    },
  }));
  const { bench, inference } = started;
  const answer = started.invoke(false).next();
  await asked.promise;
  const session = await bench.login();
  const deployments = '/api/v1/admin/deployments';
  const { json } = await bench.call('GET', `${deployments}?model=sim-chat`, session);
  const before = inference.catalogVersion();
  const changed = await bench.call('PATCH', `${deployments}/${json.data[0].id}`, session, { weight: 2 });
  expect(changed.status).toBe(200);
  await waitFor(() => inference.catalogVersion() > before, { description: 'the change' });
  goOn.resolve();
  expect((await answer).value?.head?.status).toBe(200);
  await inference.close();
});

test('a job whose model was free at its submission is told that Billing is out of reach, and not that its upstream failed', async () => {
  await using started = await startBench(() => ({
    lease: () => Promise.reject(gatewayError(ErrorReason.OVERLOADED, 'away')),
  }));
  const { bench, inference } = started;
  const price = { model: 'sim-chat', output_per_million_tokens_usd: 10 };
  const before = inference.catalogVersion();
  expect((await bench.call('POST', '/api/v1/admin/prices', await bench.login(), price)).status).toBe(201);
  await waitFor(() => inference.catalogVersion() > before, { description: 'the price' });
  await expect(started.invoke(false, undefined, uuidv7()).next()).rejects.toMatchObject({
    reason: ErrorReason.BUDGETS_OUT_OF_REACH,
  });
  await inference.close();
});
