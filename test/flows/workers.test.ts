import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { bodiesMemory, memoryBytes } from '#shared/memory-share.ts';
import { freePort } from '../support/free-port.ts';
import { owner } from '../support/gateway.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import type { StartedProcess } from '../support/processes.ts';
import { restCalls } from '../support/rest.ts';
import { waitFor } from '../support/wait-for.ts';
import { pidsOfWorkers } from '../support/worker-pids.ts';

let dataDir: string;
let database: TestDatabase;
let gateway: StartedProcess;
let url: string;
let metricsPort: number;
let session: string;
let key: string;

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'gateway-workers-'));
  database = await createTestDatabase();
  metricsPort = await freePort();
  ({ child: gateway, url } = await startGatewayProcess({
    WORKERS: '2',
    DATA_DIR: dataDir,
    DATABASE_URL: database.url,
    METRICS_PORT: String(metricsPort),
    LOG_LEVEL: 'silent',
  }));
  session = (await call('POST', '/api/v1/auth/login', '', owner)).access_token;
  ({ key } = await call('POST', '/api/v1/api-keys', session, { name: 'workers' }));
});
afterAll(async () => {
  await gateway?.kill();
  await database?.drop();
  rmSync(dataDir, { recursive: true, force: true });
});

/** Over a new connection: the workers get them in turn. */
const call = (method: string, path: string, token: string, body?: object) =>
  restCalls(url)(method, path, token, body, { connection: 'close' });

const chat = () =>
  call('POST', '/v1/chat/completions', key, {
    model: 'sandbox-chat',
    messages: [{ role: 'user', content: 'Hi' }],
  });

const workerPids = (): number[] => pidsOfWorkers(gateway.pid);

/** A metric's value in each of several scrapes. */
const scraped = async (line: string): Promise<number[]> => {
  const texts = await Promise.all(Array.from({ length: 6 }, () => call('GET', '/metrics', '')));
  return texts.map((text: string) =>
    Number(
      text
        .split('\n')
        .find((each) => each.startsWith(line))
        ?.slice(line.length) ?? 0,
    ),
  );
};

test('any worker asked for metrics reports those of all workers and of the services', async () => {
  for (let count = 0; count < 9; count += 1) await chat();
  const line = 'gateway_http_requests_total{route="/v1/chat/completions",status="200"} ';
  expect(await scraped(line)).toEqual([9, 9, 9, 9, 9, 9]);
  // Not everything is added up: a single journal that refuses writes is one too many.
  expect(await scraped('gateway_journal_healthy ')).toEqual([1, 1, 1, 1, 1, 1]);
  await waitFor(async () => (await scraped('gateway_usage_events_total{outcome="stored"} ')).every((n) => n === 9), {
    description: 'the services to have stored the calls',
  });
});

test.runIf(process.platform === 'linux')('the heaps of all workers may take half of the memory together', () => {
  const options = workerPids().map((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8'));
  const mebibytes = options.map((option) => Number(/max-old-space-size=(\d+)/.exec(option)?.[1]));
  const share = memoryBytes(2) / 2 / 1024 ** 2;
  for (const heap of mebibytes) expect(heap).toBeLessThanOrEqual(Math.max(256, share));
});

test.runIf(process.platform === 'linux')(
  'a connection that was handed to a worker which dies is closed at once',
  async () => {
    const listeners = () => gateway.output.split('The edge listens').length - 1;
    const stopped = workerPids()[0]!;
    process.kill(stopped, 'SIGSTOP');
    try {
      let waiting = 4;
      const answers = Array.from({ length: waiting }, () =>
        call('GET', '/healthz', '')
          .then(
            () => 'answered',
            (error: Error) => error.name,
          )
          .finally(() => {
            waiting -= 1;
          }),
      );
      // The other one answers everything except what the paused one has accepted.
      await waitFor(() => waiting === 1, { description: 'the others to be answered' });
      process.kill(stopped, 'SIGKILL');
      await waitFor(() => waiting === 0, { description: 'the last connection to be closed' });
      expect((await Promise.all(answers)).toSorted()).toEqual(['TypeError', 'answered', 'answered', 'answered']);
    } finally {
      if (workerPids().includes(stopped)) process.kill(stopped, 'SIGKILL');
    }
    await waitFor(() => listeners() === 3, { description: 'another worker to listen' });
  },
);

test('the workers share the memory for large bodies', async () => {
  const bytes = 32 * 1024 ** 2;
  const bodiesMax = Math.floor((2 * bodiesMemory(memoryBytes(2))) / bytes);
  const { hostname, port } = new URL(url);
  let refused = 0;
  // Only their heads: they take the room that they announce.
  const announced = Array.from({ length: 2 * bodiesMax }, () => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'content-length': bytes };
    const sent = request({ hostname, port, method: 'POST', path: '/v1/chat/completions', headers, agent: false });
    sent.on('error', () => {});
    sent.on('response', ({ statusCode }) => {
      if (statusCode === 503) refused += 1;
    });
    sent.flushHeaders();
    return sent;
  });
  try {
    await waitFor(() => refused >= announced.length - bodiesMax, {
      description: 'the bodies for which there is no room to be refused',
    });
  } finally {
    for (const sent of announced) sent.destroy();
  }
});

test.runIf(process.platform === 'linux')(
  'a worker that is killed is replaced, and what it had metered is stored',
  async () => {
    const before = workerPids();
    expect(before).toHaveLength(2);
    const stored = async () => (await call('GET', '/api/v1/usage/history?limit=100', session)).data.length;
    const known = await stored();
    for (let count = 0; count < 4; count += 1) await chat();
    // The answers of a worker that has died affect no others.
    const scrapes = Promise.allSettled(Array.from({ length: 100 }, () => call('GET', '/metrics', '')));
    await call('GET', '/healthz', '');
    process.kill(before[0]!, 'SIGKILL');
    await scrapes;
    expect(gateway.exit).toBeNull();
    await waitFor(() => workerPids().filter((pid) => !before.includes(pid)).length === 1, {
      description: 'another worker',
    });
    const answered = () =>
      chat().then(
        () => true,
        // A connection that the dead one had been given.
        (error: Error) => {
          if (error.name === 'TypeError') return false;
          throw error;
        },
      );
    await waitFor(answered, { description: 'a call to be answered' });
    const wanted = known + 5;
    const events = await waitFor(async () => ((await stored()) >= wanted ? stored() : null), {
      description: 'the events of all calls',
    });
    expect(events).toBe(wanted);
  },
);

test.runIf(process.platform === 'linux')('what a dead worker had counted stays in the total', async () => {
  const line = /^gateway_http_requests_total\{route="\/v1\/chat\/completions",status="200"\} (\d+)$/m;
  // From the first process: a connection to a worker may be one that a dead worker had been given.
  const metrics = restCalls(`http://127.0.0.1:${metricsPort}`);
  const sum = () =>
    waitFor(async () => Number(line.exec(await metrics('GET', '/metrics', ''))?.[1] ?? 0), {
      description: 'the metrics of all',
    });
  for (let count = 0; count < 6; count += 1) await chat();
  const told = await sum();
  expect(told).toBeGreaterThanOrEqual(6);
  for (const pid of workerPids()) {
    process.kill(pid, 'SIGKILL');
    await waitFor(() => workerPids().length === 2 && !workerPids().includes(pid), { description: 'another worker' });
    expect(await sum()).toBe(told);
  }
});

test.runIf(process.platform === 'linux')('workers that all die at once are replaced on the same port', async () => {
  for (const pid of workerPids()) process.kill(pid, 'SIGKILL');
  const answered = () => chat().catch((error: Error) => error.name !== 'TypeError' && Promise.reject(error));
  await waitFor(answered, { description: 'a call to be answered' });
});
