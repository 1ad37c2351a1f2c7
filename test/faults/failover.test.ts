import { setTimeout as pause } from 'node:timers/promises';
import type OpenAI from 'openai';
import { expect, test } from 'vitest';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import { startTestGateway } from '../support/gateway.ts';
import { liftRateLimits, startInferenceBench } from '../support/inference.ts';
import { rowsOf } from '../support/postgres.ts';
import { type PostgresPair, startPostgresPair } from '../support/postgres-pair.ts';
import { waitFor } from '../support/wait-for.ts';

const chat = { model: 'sim-chat', messages: [{ role: 'user' as const, content: 'Hi' }] };

/** Two replicas of a gateway on one pair, which know a price from the start and have no rate limits. */
async function startReplicas(pair: PostgresPair) {
  const closing = new AsyncDisposableStack();
  const bench = closing.use(await startInferenceBench({ databaseUrl: pair.url }));
  await bench.admin('POST', '/prices', { model: chat.model, per_request_usd: 0.01 });
  await liftRateLimits(bench);
  const env = { UPSTREAM_BASE_URL: bench.simulator.url, UPSTREAM_API_KEY: 'the-upstreams-own-key' };
  const second = closing.use(await startTestGateway({ databaseUrl: pair.url, env }));
  const both = [bench.gateway, second];
  return {
    bench,
    both,
    /** Waits until both take changes again. */
    async recovered() {
      for (const [index, gateway] of both.entries()) {
        const made = async () =>
          (await gateway.call('POST', '/api/v1/api-keys', bench.session, { name: `after it ${index}` })).status;
        await waitFor(async () => (await made()) === 201, { description: 'a key to be made', timeoutMs: 30_000 });
      }
    },
    /** The status of a call with a key, at each replica. */
    statuses: (key: string) =>
      Promise.all(both.map(async (gateway) => (await gateway.call('POST', '/v1/chat/completions', key, chat)).status)),
    [Symbol.asyncDispose]: () => closing.disposeAsync(),
  };
}

/** Calls one after the other until told to stop; returns the request ids of those that were answered. */
function callAndCall(client: OpenAI) {
  const answered: string[] = [];
  let goesOn = true;
  const calling = (async () => {
    while (goesOn) {
      await client.chat.completions.create(chat).then(
        ({ _request_id }) => answered.push(_request_id!),
        () => {},
      );
      await pause(10);
    }
  })();
  return {
    answered,
    async stop() {
      goesOn = false;
      await calling;
      return answered;
    },
  };
}

test('after a failover to a synchronous standby, each answered call is one event and one charge, and replicas go on without a restart', async () => {
  await using pair = await startPostgresPair();
  await using replicas = await startReplicas(pair);
  const { bench, both } = replicas;
  const deleted = await bench.gateway.createKey(bench.session);
  const callers = both.map((gateway) => callAndCall(gateway.openai(bench.key.key)));
  const calledEverywhere = (): Promise<unknown> => {
    const before = callers.map(({ answered }) => answered.length);
    return waitFor(() => callers.every(({ answered }, index) => answered.length >= before[index]! + 20), {
      description: '20 calls more of each',
    });
  };
  await calledEverywhere();
  await bench.gateway.call('DELETE', `/api/v1/api-keys/${deleted.id}`, bench.session);

  await pair.failOver();
  await replicas.recovered();
  await calledEverywhere();

  const answered = (await Promise.all(callers.map((caller) => caller.stop()))).flat();
  expect(await replicas.statuses(deleted.key)).toEqual([401, 401]);
  const stored = async () => {
    const rows = await rowsOf(
      pair.url,
      `select events.request_id, transactions.amount_nano_usd from usage.events left join billing.transactions
        on transactions.tenant_id = events.tenant_id and usage_event_id = events.id where success`,
    );
    return rows.length >= answered.length && rows.every((row) => row.amount_nano_usd !== null) && rows;
  };
  const rows = await waitFor(stored, { description: 'all calls to be charged', timeoutMs: 60_000 });
  expect(rows.map(({ request_id }) => request_id).sort()).toEqual(answered.sort());
  expect(new Set(rows.map(({ amount_nano_usd }) => amount_nano_usd)).size).toBe(1);
  const billing = bench.gateway.gateway.switchboard.client('admin', BillingService);
  const { faults } = await billing.verifyLedger({}, { contextValues: callerContext(serviceCaller('admin')) });
  expect(faults).toEqual([]);
});

test('after a failover that lost changes known to replicas, a deleted key and an ended session are refused everywhere once answered', async () => {
  await using pair = await startPostgresPair();
  await using replicas = await startReplicas(pair);
  const { bench, both } = replicas;
  const key = await both[1]!.createKey(bench.session);
  expect(await replicas.statuses(key.key)).toEqual([200, 200]);
  const session = await bench.gateway.login();

  await pair.cutOffStandby();
  // One change of each kind that will be lost: both replicas hear of it, but Postgres will not know it.
  const other = `/api/v1/api-keys/${bench.key.id}`;
  expect((await bench.gateway.call('PATCH', other, bench.session, { spend_cap_usd: 5 })).status).toBe(200);
  await bench.gateway.call('POST', '/api/v1/auth/logout', await bench.gateway.login());
  await pair.failOver();

  // The first changes after the failover.
  const isDeleted = async () =>
    (await bench.gateway.call('DELETE', `/api/v1/api-keys/${key.id}`, bench.session)).status === 204;
  await waitFor(isDeleted, { description: 'the key to be deleted', timeoutMs: 30_000 });
  expect(await replicas.statuses(key.key)).not.toContain(200);
  const isEnded = async () => (await both[1]!.call('POST', '/api/v1/auth/logout', session)).status === 204;
  await waitFor(isEnded, { description: 'the session to be ended', timeoutMs: 30_000 });
  const profiles = await Promise.all(both.map((gateway) => gateway.call('GET', '/api/v1/profile', session)));
  expect(profiles.map(({ status }) => status)).not.toContain(200);

  await replicas.recovered();
  expect(await replicas.statuses(key.key)).toEqual([401, 401]);
  expect((await bench.gateway.call('GET', other, bench.session)).json.spend_cap_usd).toBe(null);
});

test('a key whose creation was lost in a failover is soon unknown everywhere, even to replicas that have served it', async () => {
  await using pair = await startPostgresPair();
  await using replicas = await startReplicas(pair);
  const { bench } = replicas;
  await pair.cutOffStandby();
  const lost = await bench.gateway.createKey(bench.session, { name: 'lost' });
  expect(await replicas.statuses(lost.key)).toEqual([200, 200]);
  await pair.failOver();

  const isUnknown = async () => (await replicas.statuses(lost.key)).every((status) => status === 401);
  await waitFor(isUnknown, { description: 'the lost key to be unknown everywhere' });
  expect(await replicas.statuses(bench.key.key)).toEqual([200, 200]);
});

test('a price lost in a failover is soon charged to nobody, and the next price to everybody, though replicas knew the lost one', async () => {
  await using pair = await startPostgresPair();
  await using replicas = await startReplicas(pair);
  const { bench, both } = replicas;
  const setPrice = (usd: number) => bench.admin('POST', '/prices', { model: chat.model, per_request_usd: usd });
  /** What calls cost now, at each replica. */
  const costs = async (): Promise<number[]> => {
    const requestIds = await Promise.all(
      both.map(async (gateway) =>
        (await gateway.call('POST', '/v1/chat/completions', bench.key.key, chat)).headers.get('x-request-id'),
      ),
    );
    const eventsOfCalls = async () => {
      const { json } = await bench.gateway.call('GET', '/api/v1/usage/history?limit=100', bench.session);
      const events = json.data.filter(({ request_id }: { request_id: string }) => requestIds.includes(request_id));
      return events.length === both.length && events;
    };
    const events: { cost_usd: number }[] = await waitFor(eventsOfCalls, { description: 'the events of the calls' });
    return events.map(({ cost_usd }) => cost_usd);
  };
  const cost = (usd: number) =>
    waitFor(async () => (await costs()).every((one) => one === usd), {
      description: `calls to cost ${usd} everywhere`,
    });
  await setPrice(1);
  await cost(1);
  await pair.cutOffStandby();
  await setPrice(2);
  await cost(2);
  await pair.failOver();
  await replicas.recovered();

  await cost(1);
  await setPrice(3);
  await cost(3);
});
