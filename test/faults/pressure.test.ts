import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestGateway } from '../support/gateway.ts';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';
import { waitFor } from '../support/wait-for.ts';

let bench: InferenceBench;
beforeAll(async () => {
  bench = await startInferenceBench();
});
afterAll(async () => bench?.[Symbol.asyncDispose]());

/** A chat whose head announces a large body that does not follow. Resolves to the answer to its head, as soon as there is one. */
function announce(bytes: number, headers = '') {
  const socket = connect({ port: Number(new URL(bench.gateway.url).port), host: '127.0.0.1' });
  const announced = { socket, answer: '' };
  socket.on('data', (data) => {
    announced.answer += data.toString('latin1');
  });
  socket.on('error', () => {});
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: test\r\nauthorization: Bearer ${bench.key.key}\r\n` +
      `content-type: application/json\r\ncontent-length: ${bytes}\r\n${headers}\r\n`,
  );
  return announced;
}

test('bodies beyond their share of the memory are 503 before they are read; small calls and people are served meanwhile', async () => {
  const { gateway, client, session } = bench;
  const announced = Array.from({ length: 160 }, () => announce(32 * 1024 * 1024));
  try {
    const refused = await waitFor(() => announced.find(({ answer }) => answer.includes('\r\n\r\n')), {
      description: 'one of 5 GiB of bodies to be refused',
    });
    expect(refused.answer).toMatch(/^HTTP\/1\.1 503 /);
    expect(refused.answer).toMatch(/\r\nretry-after: 5\r\n/);
    expect(refused.answer).toMatch(/\r\nx-request-id: req_/);
    expect(refused.answer).toContain('"code":"server_is_overloaded"');
    const chat = { model: 'sim-chat', messages: [{ role: 'user' as const, content: 'Hi' }] };
    expect((await client.chat.completions.create(chat)).choices).toHaveLength(1);
    expect((await gateway.call('GET', '/api/v1/api-keys', session)).status).toBe(200);
    const { text } = await gateway.call('GET', '/metrics');
    expect(text).toMatch(/^gateway_shed_requests_total\{cause="memory"\} [1-9]/m);
    expect(text).toMatch(/^gateway_http_requests_total\{route="\/v1\/chat\/completions",status="503"\} [1-9]/m);
  } finally {
    for (const { socket } of announced) socket.destroy();
  }
  const large = 'word '.repeat(100_000);
  const asked = () =>
    client.chat.completions.create({ model: 'sim-chat', messages: [{ role: 'user', content: large }] }).then(
      () => true,
      ({ status }) => {
        if (status !== 503) throw new Error(`a large call was answered ${status}`);
        return false;
      },
    );
  await waitFor(asked, { description: 'the room to be given back' });
});

test.each([
  ['is not valid', 400, 32 * 1024 * 1024, 'host: another\r\n'],
  ['is too large', 413, 64 * 1024 * 1024, ''],
])(
  'a request that %s takes no room from others behind its refusal, however long it stays',
  async (_, status, bytes, headers) => {
    const announced = Array.from({ length: 160 }, () => announce(bytes, headers));
    try {
      const isAnswered = () => announced.every(({ answer }) => answer.includes('\r\n\r\n'));
      await waitFor(isAnswered, { description: 'all to be answered' });
      expect(new Set(announced.map(({ answer }) => answer.slice(0, 12)))).toEqual(new Set([`HTTP/1.1 ${status}`]));
      expect(announced.some(({ socket }) => socket.readableEnded)).toBe(false);
    } finally {
      for (const { socket } of announced) socket.destroy();
    }
  },
);

test('an upgrade to a realtime session is refused like other work while the gateway is overloaded', async () => {
  let spentMs = 0;
  let stepMs = 0;
  const monotonic = (): number => {
    spentMs += stepMs;
    return performance.now() + spentMs;
  };
  await using gateway = await startTestGateway({ clock: { now: Date.now, monotonic } });
  const port = Number(new URL(gateway.url).port);
  const upgradesCount = 10;
  const opened = await Promise.all(
    Array.from({ length: upgradesCount + 150 }, async () => {
      const socket = connect({ port, host: '127.0.0.1' });
      await once(socket, 'connect');
      // An answer shows that the server has accepted the connection.
      socket.write('GET /healthz HTTP/1.1\r\nhost: test\r\n\r\n');
      await once(socket, 'data');
      return socket;
    }),
  );
  const [upgrades, crowd] = [opened.slice(0, upgradesCount), opened.slice(upgradesCount)];
  const answers = upgrades.map(async (socket) => {
    let answer = '';
    socket.on('data', (data) => {
      answer += data.toString('latin1');
    });
    await once(socket, 'end');
    return answer;
  });
  // Everything written before the loop runs arrives in one turn of it, which is a long one by this clock.
  stepMs = 10;
  for (const socket of crowd) {
    socket.write('POST /v1/chat/completions HTTP/1.1\r\nhost: test\r\ncontent-length: 0\r\n\r\n');
  }
  for (const socket of upgrades) {
    socket.write(
      'GET /v1/realtime?intent=transcription HTTP/1.1\r\nhost: test\r\nconnection: upgrade\r\nupgrade: websocket\r\n' +
        'sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
    );
  }
  const refused = (await Promise.all(answers)).filter((answer) => answer.startsWith('HTTP/1.1 503 '));
  stepMs = 0;
  for (const socket of crowd) socket.destroy();
  expect(refused.length).toBeGreaterThan(0);
  for (const answer of refused) {
    expect(answer).toMatch(/\r\nretry-after: 5\r\n/i);
    expect(answer).toMatch(/\r\nconnection: close\r\n/i);
    expect(answer).toMatch(/\r\nx-request-id: req_/i);
    expect(answer).toContain('"code":"server_is_overloaded"');
  }
  const { text } = await gateway.call('GET', '/metrics');
  const counted = new RegExp(`^gateway_http_requests_total{route="/v1/realtime",status="503"} ${refused.length}$`, 'm');
  expect(text).toMatch(counted);
});
