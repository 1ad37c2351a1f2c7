import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import type { Clock } from '#shared/clock.ts';
import { type Env, readEnv } from '#shared/env.ts';
import { createLogger } from '#shared/logger.ts';
import { serviceNames } from '#shared/service-names.ts';
import { bootstrap } from '../../services/cmd/bootstrap.ts';
import { type Gateway, startGateway } from '../../services/cmd/gateway.ts';
import { checkAnswer } from './described-answers.ts';
import { createTestDatabase } from './postgres.ts';

/** What the processes of one gateway share. */
export const testSecrets = {
  KEY_PEPPER: 'a pepper for tests that is long enough',
  SERVICE_SECRET: 'a service secret for tests that is long enough',
} as const;

/** The first owner and operator of every test gateway. */
export const owner = { email: 'owner@example.com', password: 'Correct-horse-1' } as const;

export type TestGateway = AsyncDisposable & {
  url: string;
  gateway: Gateway;
  env: Env;
  /**
   * A REST call with a bearer token (none if it is empty). A form or bytes are sent as they are, a string as JSON text, anything else is
   * serialized as JSON. Fails if the answer does not match /openapi.json.
   */
  call(method: string, path: string, token?: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  /** An access token of the first owner, or of someone else. */
  login(credentials?: { email: string; password: string }): Promise<string>;
  /** A new API key's secret and id. */
  createKey(token: string, fields?: Record<string, unknown>): Promise<{ id: string; key: string }>;
  /** The unmodified client, without retries unless requested. */
  openai(key: string, options?: { maxRetries?: number; prefix?: '/v1' | '/api/v1' }): OpenAI;
};

export type Answer = {
  status: number;
  headers: Headers;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests read answers of every shape; the assertions are the types.
  json: any;
};

export type TestGatewayOptions = {
  env?: Record<string, string>;
  clock?: Clock;
  /** Uses the database of another gateway, as a further replica. */
  databaseUrl?: string;
  /** False if background jobs wait for a worker elsewhere. */
  worker?: boolean;
  /** Collects every log line, down to traces. */
  logLines?: string[];
  /** The folder of the built portal; if missing, none is served. */
  portal?: Promise<string>;
};

/** Starts the whole gateway in this process, on a database of its own and free ports. */
export async function startTestGateway(options: TestGatewayOptions = {}): Promise<TestGateway> {
  const database = options.databaseUrl === undefined ? await createTestDatabase() : undefined;
  const dataDir = options.env?.DATA_DIR === undefined ? mkdtempSync(join(tmpdir(), 'gateway-')) : undefined;
  const source = {
    PORT: '0',
    RPC_PORT: '0',
    ...(dataDir !== undefined && { DATA_DIR: dataDir }),
    DATABASE_URL: options.databaseUrl ?? database!.url,
    BOOTSTRAP_EMAIL: owner.email,
    BOOTSTRAP_PASSWORD: owner.password,
    PUBLIC_URL: 'http://gateway.test',
    ...testSecrets,
    LOG_LEVEL: process.env.TEST_LOG_LEVEL ?? 'silent',
    ...options.env,
  };
  const env = { ...readEnv(source), ...(options.clock && { clock: options.clock }) };
  const { logLines } = options;
  const logger =
    logLines === undefined
      ? createLogger({ level: env.logLevel, name: 'test' })
      : createLogger({ level: 'trace', name: 'test', destination: { write: (line) => void logLines.push(line) } });
  const gateway = await startGateway(
    env,
    {
      services: serviceNames,
      edge: true,
      worker: options.worker ?? true,
      bootstrap: (switchboard) => bootstrap(env, switchboard, logger),
      ...(options.portal && { portal: options.portal }),
    },
    logger,
  );
  await gateway.ready();
  const url = gateway.url!;

  const call: TestGateway['call'] = async (method, path, token = '', body, headers = {}) => {
    const isForm = body instanceof FormData;
    const isJson = !isForm && !(body instanceof Uint8Array) && typeof body !== 'string';
    const response = await fetch(url + path, {
      method,
      headers: {
        ...(token !== '' && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && !isForm && { 'content-type': 'application/json' }),
        ...headers,
      },
      body: isJson ? JSON.stringify(body) : (body as RequestInit['body']),
    });
    const text = await response.text();
    const json = response.headers.get('content-type')?.startsWith('application/json') ? JSON.parse(text) : undefined;
    const { status, headers: head } = response;
    await checkAnswer(url, method, path, { status, type: head.get('content-type'), text });
    return { status, headers: head, text, json };
  };

  return {
    url,
    gateway,
    env,
    call,
    async login(credentials = owner) {
      const answer = await call('POST', '/api/v1/auth/login', '', credentials);
      if (answer.status !== 200) throw new Error(`login answered ${answer.status}: ${answer.text}`);
      return answer.json.access_token;
    },
    async createKey(token, fields = {}) {
      const answer = await call('POST', '/api/v1/api-keys', token, { name: 'test key', ...fields });
      if (answer.status !== 201) throw new Error(`creating a key answered ${answer.status}: ${answer.text}`);
      return { id: answer.json.id, key: answer.json.key };
    },
    openai: (key, { maxRetries = 0, prefix = '/v1' } = {}) =>
      new OpenAI({ apiKey: key, baseURL: url + prefix, maxRetries }),
    async [Symbol.asyncDispose]() {
      await gateway.close();
      await database?.drop();
      if (dataDir !== undefined) rmSync(dataDir, { recursive: true, force: true });
    },
  };
}
