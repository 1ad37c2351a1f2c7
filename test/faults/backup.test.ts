import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { owner } from '../support/gateway.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { restCalls } from '../support/rest.ts';
import { waitFor } from '../support/wait-for.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'gateway-backup-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A gateway with the embedded Postgres on a data folder. */
async function start(dataDir: string) {
  const { child, url } = await startGatewayProcess({ DATA_DIR: dataDir, DATABASE_URL: undefined });
  const rpcPort = await child.waitForPort(/Internal RPC\s+http:\/\/127\.0\.0\.1:(\d+)/);

  const call = restCalls(url);
  return {
    child,
    call,
    login: async (): Promise<string> => (await call('POST', '/api/v1/auth/login', '', owner)).access_token,
    /** The output of `npm run admin -- …`; rejects if the command fails. */
    async admin(...words: string[]) {
      const env = { ...process.env, DATA_DIR: dataDir, RPC_PORT: String(rpcPort) };
      const { stdout } = await promisify(execFile)(process.execPath, ['services/cmd/admin.ts', ...words, '--json'], {
        env,
      });
      return JSON.parse(stdout);
    },
    [Symbol.asyncDispose]: () => child.kill(),
  };
}

test('a copy of the data folder is a backup: restored after a kill, it has its keys, its usage and a sound ledger and audit chain', async () => {
  const chat = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hi' }] };
  const paths = ['/api/v1/usage/history', '/api/v1/billing/wallet', '/api/v1/api-keys'];
  let key: string;
  let before: unknown[];
  {
    await using first = await start(join(folder, 'original'));
    const session = await first.login();
    const price = { model: chat.model, per_request_usd: 0.5 };
    await first.call('POST', '/api/v1/admin/prices', session, price);
    ({ key } = await first.call('POST', '/api/v1/api-keys', session, { name: 'kept' }));
    for (let count = 0; count < 3; count += 1) await first.call('POST', '/v1/chat/completions', key, chat);
    const drafts = '/api/v1/billing/documents/invoices?status=draft';
    await waitFor(async () => (await first.call('GET', drafts, session)).data[0]?.subtotal_usd === 1.5, {
      description: 'the calls to be charged',
    });
    await waitFor(async () => (await first.call('GET', '/api/v1/usage/history', session)).data.length === 3, {
      description: 'the calls to be stored',
    });
    await waitFor(async () => (await first.call('GET', '/api/v1/api-keys', session)).data[0].usage_count === 3, {
      description: 'the uses of the key to be stored',
    });
    before = await Promise.all(paths.map((path) => first.call('GET', path, session)));
  }
  const running = join(folder, 'original', 'postgres', 'data', 'postmaster.pid');
  await waitFor(() => !existsSync(running), { description: 'Postgres to have ended after its gateway' });
  cpSync(join(folder, 'original'), join(folder, 'copy'), { recursive: true });

  await using restored = await start(join(folder, 'copy'));
  const session = await restored.login();
  expect(await Promise.all(paths.map((path) => restored.call('GET', path, session)))).toEqual(before);
  const { ledger, entries_checked } = await restored.admin('ledger', 'verify');
  expect([ledger, entries_checked > 0]).toEqual(['sound', true]);
  expect((await restored.admin('audit', 'verify')).chain).toBe('whole');
  expect((await restored.call('POST', '/v1/chat/completions', key, chat)).choices).toHaveLength(1);
});
