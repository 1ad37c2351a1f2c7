import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { uuidv7 } from '#shared/ids.ts';
import { keyDigest, keyPreview, makeKeySecret } from '#shared/key-secret.ts';
import manifest from '../../../package.json' with { type: 'json' };
import { freePort } from '../../support/free-port.ts';
import { type Contender, type Prepared, start } from '../contender.ts';
import { models } from '../workloads.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const owner = { email: 'owner@example.com', password: 'Correct-horse-1' };
const pepper = { version: 1, secret: 'a pepper for the benchmark that is long enough' };

/** This gateway, started by its start script, with every duty on: nothing in its environment is set for speed. */
export const gateway: Contender = {
  name: 'gateway',
  title: 'Model Gateway',
  duties:
    'key with scopes, model and IP allowlists and a spend cap; prices, budgets, rate limits; metering and charging to Postgres; metrics scraped each second',
  async prepare({ upstreamUrl, port, folder, databaseUrl, keyCount, nice }) {
    const database = await databaseUrl('gateway');
    const dataDir = join(folder, 'data');
    mkdirSync(dataDir);
    const prepared: Prepared = {
      command: [process.execPath, ...manifest.scripts.start.split(' ').slice('exec node'.split(' ').length)],
      cwd: root,
      env: {
        PORT: String(port),
        RPC_PORT: String(await freePort()),
        DATA_DIR: dataDir,
        DATABASE_URL: database,
        BOOTSTRAP_EMAIL: owner.email,
        BOOTSTRAP_PASSWORD: owner.password,
        KEY_PEPPER: `${pepper.version}:${pepper.secret}`,
        UPSTREAM_BASE_URL: `${upstreamUrl}/v1`,
      },
      headers: {},
      token: '',
    };
    const logFile = join(folder, 'first-start.log');
    // Printed when the upstream's models are in the catalog.
    const isUp = async () => readFileSync(logFile, 'utf8').includes('API and portal');
    const running = await start(prepared, { logFile, isUp, nice });
    try {
      const { id, key } = await makeKey(`http://127.0.0.1:${port}`);
      const tokens = await cloneKey(database, id, keyCount);
      return { ...prepared, token: key, tokens };
    } finally {
      await running.stop();
    }
  },
};

/** Creates a key over REST as an operator would, with limits too high to reach. */
async function makeKey(url: string): Promise<{ id: string; key: string }> {
  const call = await signIn(url);
  for (const model of Object.values(models)) {
    const rates = { input_per_million_tokens_usd: 0.1, output_per_million_tokens_usd: 0.4 };
    await call('POST', '/api/v1/admin/prices', { model, ...rates });
  }
  return makeUnlimitedKey(call, { spend_cap_usd: 1_000_000 });
}

type Call = (method: string, path: string, body?: unknown) => Promise<Record<string, string>>;

/** REST calls with the owner's session; a failed call throws. */
export async function signIn(url: string): Promise<Call> {
  const callAs =
    (session: string): Call =>
    async (method, path, body) => {
      const answer = await fetch(url + path, {
        method,
        headers: {
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...(session && { authorization: `Bearer ${session}` }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      if (!answer.ok) throw new Error(`${method} ${path} answered ${answer.status}: ${await answer.text()}`);
      return answer.status === 204 ? {} : ((await answer.json()) as Record<string, string>);
    };
  return callAs((await callAs('')('POST', '/api/v1/auth/login', owner)).access_token!);
}

/** A key whose rate limits are too high to matter. */
export async function makeUnlimitedKey(
  call: Call,
  constraints: { spend_cap_usd?: number },
): Promise<{ id: string; key: string }> {
  const { id, key } = await call('POST', '/api/v1/api-keys', {
    name: 'bench',
    model_allowlist: Object.values(models),
    ip_allowlist: ['127.0.0.0/8'],
    ...constraints,
  });
  await call('PUT', `/api/v1/admin/keys/${id}/rate-limits`, {
    requests_per_minute: 10_000_000,
    tokens_per_minute: 2_000_000_000,
    concurrent_requests: 1_000_000,
  });
  return { id: id!, key: key! };
}

/** Copies a key many times directly in the tables of Keys: creating them over REST would take minutes. */
async function cloneKey(database: string, id: string, count: number): Promise<string[]> {
  const secrets = Array.from({ length: count }, () => makeKeySecret(randomBytes(32)));
  const client = new pg.Client(database);
  await client.connect();
  try {
    const ids = secrets.map(() => uuidv7());
    const columns =
      'user_id, name, key_type, scopes, model_allowlist, ip_allowlist, spend_cap_nano_usd, requests_per_minute, tokens_per_minute, concurrent_requests, created_at';
    await client.query(
      `insert into keys.keys (tenant_id, id, preview, ${columns})
        select tenant_id, clone.id, clone.preview, ${columns} from keys.keys, unnest($2::uuid[], $3::text[]) as clone (id, preview)
        where keys.id = $1`,
      [id, ids, secrets.map(keyPreview)],
    );
    await client.query(
      `insert into keys.digests (tenant_id, key_id, digest, pepper_version, created_at)
        select tenant_id, clone.id, clone.digest, $4, created_at from keys.keys, unnest($2::uuid[], $3::bytea[]) as clone (id, digest)
        where keys.id = $1`,
      [id, ids, secrets.map((secret) => keyDigest(secret, pepper)), pepper.version],
    );
  } finally {
    await client.end();
  }
  return secrets;
}
