import { Agent, get } from 'node:http';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait-for.ts';

/*
 * reliability.md, "drain on SIGTERM, rolling restart: 0 lost requests". Clients with connections that they keep stand behind a
 * balancer, which asks each replica now and then whether it is ready, and sends requests to one that is.
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
  const probing = setInterval(() => void probe(), 100);
  const agent = new Agent({ keepAlive: true });
  const answers: { status: number; kept: boolean }[] = [];
  const failures: unknown[] = [];
  let isOver = false;
  const client = async (turn: number): Promise<void> => {
    while (!isOver) {
      const replica = ready[turn++ % ready.length]!;
      await ask(agent, replica.url, key).then(
        (answer) => answers.push(answer),
        (error) => failures.push(error),
      );
    }
  };
  const clients = Array.from({ length: 16 }, (_, turn) => client(turn));
  try {
    for (const index of [0, 1]) {
      const before = answers.length;
      await waitFor(() => answers.length > before + 100, { description: 'some answers' });
      const old = replicas[index]!;
      await old.gateway.close(3_000);
      const fresh = await start();
      replicas[index] = fresh;
      await probe();
    }
    isOver = true;
    await Promise.all(clients);
    expect(failures).toEqual([]);
    expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
    expect(answers.some(({ kept }) => kept)).toBe(true);
    expect(
      answers.some(({ kept }) => !kept),
      'nobody was told to leave',
    ).toBe(true);
  } finally {
    isOver = true;
    clearInterval(probing);
    agent.destroy();
    for (const replica of replicas) await replica[Symbol.asyncDispose]();
    await database.drop();
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
    // It takes the first piece and stops; what comes then fills the network's own buffers, and waits behind them.
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
