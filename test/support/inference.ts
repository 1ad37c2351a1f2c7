import type OpenAI from 'openai';
import { operationName, operationsByPath } from '#shared/operations.ts';
import type { ClockAhead } from './clock-ahead.ts';
import { type Answer, startTestGateway, type TestGateway, type TestGatewayOptions } from './gateway.ts';
import { startUpstreamSimulator, type UpstreamSimulator } from './upstream-simulator.ts';
import { waitFor } from './wait-for.ts';

export type InferenceBench = AsyncDisposable & {
  gateway: TestGateway;
  simulator: UpstreamSimulator;
  session: string;
  key: { id: string; key: string };
  client: OpenAI;
  /** Replaces the key, which distinguishes a test's events. */
  renew(): Promise<void>;
  /** The answer to an operator's call below /api/v1/admin; fails if it is refused. */
  admin(method: string, path: string, body?: unknown): Promise<Answer['json']>;
  /** The last usage event of the key, once it is stored with these fields. */
  event(fields?: Record<string, unknown>): Promise<Record<string, unknown>>;
};

/** A tool as clients describe it. */
export const tools = [
  {
    type: 'function' as const,
    function: {
      name: 'weather',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  },
];

/** A gateway in front of the upstream simulator, and a client with a key. */
export async function startInferenceBench(options: TestGatewayOptions = {}): Promise<InferenceBench> {
  const simulator = await startUpstreamSimulator();
  const gateway = await startTestGateway({
    ...options,
    env: { UPSTREAM_BASE_URL: simulator.url, UPSTREAM_API_KEY: 'the-upstreams-own-key', ...options.env },
  });
  const session = await gateway.login();
  const bench: InferenceBench = {
    gateway,
    simulator,
    session,
    key: { id: '', key: '' },
    client: gateway.openai('none yet'),
    async renew() {
      // The owner's quota is ten keys.
      if (bench.key.id !== '') await gateway.call('DELETE', `/api/v1/api-keys/${bench.key.id}`, bench.session);
      simulator.reset();
      bench.key = await gateway.createKey(bench.session);
      bench.client = gateway.openai(bench.key.key);
    },
    async admin(method, path, body) {
      const answer = await gateway.call(method, `/api/v1/admin${path}`, bench.session, body);
      if (answer.status >= 400) throw new Error(`${method} ${path} answered ${answer.status}: ${answer.text}`);
      return answer.json;
    },
    event: (fields = {}) =>
      waitFor(
        async () => {
          const path = `/api/v1/usage/history?limit=1&api_key_id=${bench.key.id}`;
          const event = (await gateway.call('GET', path, bench.session)).json?.data?.[0];
          const matches = Object.entries(fields).every(([name, value]) => event?.[name] === value);
          if (!matches) throw new Error(`the last event is ${JSON.stringify(event)}`);
          return event;
        },
        { description: `an event with ${JSON.stringify(fields)}` },
      ),
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]();
      await simulator.close();
    },
  };
  await bench.renew();
  return bench;
}

/** Renews a bench after a successful call, so that the failures of many tests do not add up and open the breaker. */
export async function renewAfterSuccess(bench: InferenceBench): Promise<void> {
  bench.simulator.reset();
  const messages = [{ role: 'user' as const, content: 'Hi' }];
  await bench.gateway.openai(bench.session).chat.completions.create({ model: 'sim-chat', messages });
  await bench.renew();
}

/** The operations that consist of a single call: all but realtime sessions. */
export const operationsOfCalls = [...operationsByPath('json', 'form').values()].map(operationName);

/** Raises the organization's rate limits so far that none of a test's calls is refused for them. */
export async function liftRateLimits(bench: InferenceBench): Promise<void> {
  const [organization] = (await bench.admin('GET', '/organizations')).data;
  const limits = { requests_per_minute: 1_000_000, tokens_per_minute: 1_000_000_000, concurrent_requests: 1_000 };
  await bench.admin('PATCH', `/organizations/${organization.id}`, { rate_limits: limits });
}

/** Creates a realtime transcription model that retired a moment ago, by the gateway's clock; returns its name. */
export async function retiredModel(bench: InferenceBench, clock: ClockAhead, name: string): Promise<string> {
  await bench.admin('POST', '/models', { name, operations: ['realtime_transcription'] });
  await bench.admin('POST', '/retirements', {
    model: name,
    sunset_at: new Date(clock.now() + 60_000).toISOString(),
    replacement_model_name: 'sandbox-transcribe',
  });
  clock.aheadMs += 60_000;
  return name;
}
