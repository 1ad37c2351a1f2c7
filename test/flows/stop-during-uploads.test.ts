import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { owner } from '../support/gateway.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { createTestDatabase, rowsOf, type TestDatabase } from '../support/postgres.ts';
import { restCalls } from '../support/rest.ts';
import { filesOfUploads } from '../support/uploads.ts';
import { startUpstreamSimulator, type UpstreamSimulator } from '../support/upstream-simulator.ts';
import { waitFor } from '../support/wait-for.ts';

/* reliability.md: drain on SIGTERM, 0 lost requests; security.md, multipart bombs: the temporary folder is empty. */

let database: TestDatabase;
let simulator: UpstreamSimulator;
let dataDir: string;

beforeAll(async () => {
  database = await createTestDatabase();
  simulator = await startUpstreamSimulator();
  dataDir = mkdtempSync(join(tmpdir(), 'gateway-stop-'));
});
afterAll(async () => {
  await simulator?.close();
  await database?.drop();
  rmSync(dataDir, { recursive: true, force: true });
});

const start = async () => {
  const { child, url } = await startGatewayProcess({
    DATA_DIR: dataDir,
    DATABASE_URL: database.url,
    UPSTREAM_BASE_URL: simulator.url,
    SHUTDOWN_DELAY_SECONDS: '0',
  });
  const call = restCalls(url);
  const { access_token: session } = await call('POST', '/api/v1/auth/login', '', owner);
  return { child, url, session };
};

const spooled = () => filesOfUploads(dataDir);

const piece = Buffer.alloc(1024 * 1024);
const formHead =
  '--b\r\ncontent-disposition: form-data; name="model"\r\n\r\nsim-transcribe\r\n' +
  '--b\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n';

/** An upload whose first half has been sent. */
async function halfUploaded(url: string, session: string): Promise<ClientRequest> {
  const upload = request(`${url}/v1/audio/transcriptions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${session}`, 'content-type': 'multipart/form-data; boundary=b' },
  });
  upload.write(formHead);
  for (let count = 0; count < 12; count++) await send(upload);
  await waitFor(() => spooled().length === 1, { description: 'the upload on disk' });
  return upload;
}

const send = (upload: ClientRequest): Promise<void> => new Promise((resolve) => upload.write(piece, () => resolve()));

test('SIGKILL leaves nothing of an upload to the next start, and SIGTERM lets one of 25 MiB and a stream end; each call is metered once', async () => {
  const first = await start();
  try {
    const upload = await halfUploaded(first.url, first.session);
    upload.on('error', () => {});
    await first.child.kill();
    expect(spooled()).toHaveLength(1);
  } finally {
    await first.child.kill();
  }

  const second = await start();
  try {
    expect(spooled()).toEqual([]);
    const upload = await halfUploaded(second.url, second.session);
    const answered = once(upload, 'response') as Promise<[IncomingMessage]>;
    const released = Promise.withResolvers<void>();
    simulator.next({ hold: { until: released.promise, afterChunks: 3 } });
    const stream = await fetch(`${second.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${second.session}` },
      body: JSON.stringify({ model: 'sim-chat', stream: true, messages: [{ role: 'user', content: 'Hi' }] }),
    });
    second.child.signal('SIGTERM');
    const refused = () =>
      fetch(`${second.url}/healthz`).then(
        () => false,
        () => true,
      );
    await waitFor(refused, { description: 'the end of listening' });
    for (let count = 0; count < 12; count++) await send(upload);
    upload.end('\r\n--b--\r\n');
    const [answer] = await answered;
    expect(answer.statusCode, await text(answer)).toBe(200);
    released.resolve();
    expect(await stream.text()).toMatch(/data: \[DONE\]\n\n$/);
    expect(await second.child.exited(15_000)).toMatchObject({ code: 0 });
    // Nor a folder of its own.
    expect(readdirSync(join(dataDir, 'uploads'))).toEqual([]);
  } finally {
    await second.child.kill();
  }
  expect(await rowsOf(database.url, 'select endpoint, success from usage.events order by endpoint')).toEqual([
    { endpoint: '/v1/audio/transcriptions', success: true },
    { endpoint: '/v1/chat/completions', success: true },
  ]);
  expect(simulator.requests).toHaveLength(2);
});
