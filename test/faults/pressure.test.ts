import { connect } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';
import { waitFor } from '../support/wait-for.ts';

let bench: InferenceBench;
beforeAll(async () => {
  bench = await startInferenceBench();
});
afterAll(async () => bench?.[Symbol.asyncDispose]());

/** A chat whose head announces a large body that does not come. Its head's answer, as soon as there is one. */
function announce(bytes: number) {
  const socket = connect({ port: Number(new URL(bench.gateway.url).port), host: '127.0.0.1' });
  const announced = { socket, answer: '' };
  socket.on('data', (data) => {
    announced.answer += data.toString('latin1');
  });
  socket.on('error', () => {});
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: test\r\nauthorization: Bearer ${bench.key.key}\r\n` +
      `content-type: application/json\r\ncontent-length: ${bytes}\r\n\r\n`,
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
