import { Agent, get } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait-for.ts';

/*
 * reliability.md, "drain on SIGTERM, rolling restart: 0 lost requests". Clients with persistent connections are behind a balancer, which
 * asks each replica from time to time whether it is ready, and sends requests to one that is.
 */
test('no request is lost while replicas are restarted one after the other', async () => {
  const database = await createTestDatabase();
  const start = () => startTestGateway({ databaseUrl: database.url });
  const replicas = [await start(), await start()];
  const { key } = await replicas[0]!.createKey(await replicas[0]!.login());
  let ready = [...replicas];
  const probe = async () => {
    const states = await Promise.all(replicas.map((replica) => isReady(replica)));
    ready = replicas.filter((_, index) => states[index]);
  };
  const agent = new Agent({ keepAlive: true });
  const answers: { status: number; kept: boolean }[] = [];
  const failures: unknown[] = [];
  let isOver = false;
  const balancer = async (): Promise<void> => {
    while (!isOver) {
      await probe();
      await pause(100);
    }
  };
  const balancing = balancer();
  const askOne = (replica: TestGateway): Promise<unknown> =>
    ask(agent, replica.url, key).then(
      (answer) => answers.push(answer),
      (error) => failures.push(error),
    );
  const client = async (turn: number): Promise<void> => {
    while (!isOver) {
      await askOne(ready[turn++ % ready.length]!);
      await pause(50);
    }
  };
  const clients = Array.from({ length: 16 }, (_, turn) => client(turn));
  try {
    for (let index = 0; index < replicas.length; ) {
      const [before, failuresBefore] = [answers.length, failures.length];
      await waitFor(() => answers.length > before + 100, { description: 'some answers' });
      const old = replicas[index]!;
      const delayMs = 3_000;
      const stopsMs = performance.now() + delayMs;
      const closing = old.gateway.close(delayMs);
      await waitFor(() => !ready.includes(old), { description: 'the balancer to notice', intervalMs: 5 });
      // By chance the balancer may have noticed before any client asked.
      await askOne(old);
      const isInTime = performance.now() < stopsMs;
      await closing;
      const fresh = await start();
      replicas[index] = fresh;
      await waitFor(() => ready.includes(fresh), { description: 'the balancer to find the new one' });
      // The delay has to be longer than balancers take. If the machine kept one from asking throughout the delay, that run shows nothing
      // and is repeated.
      if (isInTime) index += 1;
      else failures.length = failuresBefore;
    }
    isOver = true;
    await Promise.all([balancing, ...clients]);
    expect(failures).toEqual([]);
    expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
    expect(answers.some(({ kept }) => kept)).toBe(true);
    expect(
      answers.some(({ kept }) => !kept),
      'nobody was told to leave',
    ).toBe(true);
  } finally {
    isOver = true;
    agent.destroy();
    for (const replica of replicas) await replica[Symbol.asyncDispose]();
    await database.drop();
  }
});

test('a request that arrived before the gateway stops listening is served, even if the process was kept from reading it', async () => {
  const started = await startTestGateway();
  try {
    const { hostname, port } = new URL(started.url);
    const client = connect(Number(port), hostname).setEncoding('latin1');
    let answered = '';
    client.on('data', (text) => {
      answered += text;
    });
    const over = new Promise<void>((resolve, reject) => client.on('error', reject).on('close', () => resolve()));
    const request = 'GET /healthz HTTP/1.1\r\nhost: gateway\r\n\r\n';
    client.write(request);
    await waitFor(() => answered.endsWith('}'), { description: 'a connection that is kept' });
    const delayMs = 1_000;
    const stopsMs = performance.now() + delayMs;
    const closing = started.gateway.close(delayMs);
    await waitFor(async () => !(await isReady(started)), { description: 'the gateway to be told' });
    answered = '';
    client.write(request);
    // As if the machine had no core to spare: nothing in this process runs until the delay is over.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, stopsMs + 200 - performance.now());
    await Promise.all([over, closing]);
    expect(answered).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
  } finally {
    await started[Symbol.asyncDispose]();
  }
});

test('clients waiting to be accepted when the gateway stops listening are served, since a balancer that does not check readiness sends more until then', async () => {
  const started = await startTestGateway();
  try {
    const { hostname, port } = new URL(started.url);
    const delayMs = 1_000;
    const stopsMs = performance.now() + delayMs;
    const closing = started.gateway.close(delayMs);
    await waitFor(async () => !(await isReady(started)), { description: 'the gateway to be told' });
    const answers = Array.from({ length: 20 }, () => {
      const client = connect(Number(port), hostname).setEncoding('latin1');
      client.write('GET /healthz HTTP/1.1\r\nhost: gateway\r\n\r\n');
      return new Promise<string>((resolve, reject) => {
        let answer = '';
        client
          .on('data', (text) => {
            answer += text;
          })
          .on('error', reject)
          .on('close', () => resolve(answer));
      });
    });
    // They are connected by now, but none is accepted before the delay is over: the event loop takes one of a crowd per turn.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, stopsMs + 200 - performance.now());
    const lines = (await Promise.all(answers)).map((answer) => answer.split('\r\n', 1)[0]);
    expect(lines).toEqual(answers.map(() => 'HTTP/1.1 200 OK'));
    await closing;
  } finally {
    await started[Symbol.asyncDispose]();
  }
});

test('an answer that its client has yet to read arrives whole, though the gateway is told to stop meanwhile', async () => {
  const started = await startTestGateway();
  try {
    const { key } = await started.createKey(await started.login());
    const body = JSON.stringify({ model: 'sandbox-embed', input: Array.from({ length: 2_000 }, String) });
    const { hostname, port } = new URL(started.url);
    const client = connect(Number(port), hostname);
    const pieces: Buffer[] = [];
    // It takes the first piece and stops; what follows fills the network's own buffers, and waits after them.
    client.once('data', () => client.pause());
    const over = new Promise<void>((resolve, reject) => {
      client
        .on('data', (piece) => pieces.push(Buffer.from(piece)))
        .on('error', reject)
        .on('close', () => resolve());
    });
    client.write(
      `POST /v1/embeddings HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\n` +
        `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    );
    await waitFor(() => pieces.length > 0, { description: 'the start of the answer' });
    const closing = started.gateway.close();
    await waitFor(() => isGone(started), { description: 'the end of listening' });
    client.resume();
    await Promise.all([over, closing]);
    const answer = Buffer.concat(pieces).toString();
    const [, json] = answer.split('\r\n\r\n') as [string, string];
    expect(JSON.parse(json).data).toHaveLength(2_000);
  } finally {
    await started[Symbol.asyncDispose]();
  }
});

const isGone = ({ url }: TestGateway): Promise<boolean> =>
  fetch(`${url}/readyz`).then(
    () => false,
    () => true,
  );

const isReady = ({ url }: TestGateway): Promise<boolean> =>
  fetch(`${url}/readyz`).then(
    ({ ok }) => ok,
    () => false,
  );

/** A call that no rate limit counts, so that as many can be made as the machine bears. */
const ask = (agent: Agent, url: string, key: string): Promise<{ status: number; kept: boolean }> =>
  new Promise((resolve, reject) => {
    get(`${url}/v1/models`, { agent, headers: { authorization: `Bearer ${key}` } }, (response) => {
      response.on('error', reject).on('end', () => {
        resolve({ status: response.statusCode!, kept: response.headers.connection !== 'close' });
      });
      response.resume();
    }).on('error', reject);
  });
