import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { expect } from 'vitest';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import { type Answer, owner, startTestGateway, type TestGateway } from '../gateway.ts';
import { createTestDatabase, type TestDatabase } from '../postgres.ts';
import { markOf } from '../random-histories.ts';
import { nothingYet, type Received, receive } from '../receive.ts';
import type { Behaviour } from '../simulator/behaviour.ts';
import { TwoReplicas } from '../two-replicas.ts';
import { startUpstreamSimulator, type TruthEntry, type UpstreamSimulator } from '../upstream-simulator.ts';
import { waitFor } from '../wait-for.ts';
import type { Act, Call, Caller, Job } from './acts.ts';

const model = 'acme/chat';
const otherCapUsd = 0.2;
const tokensMax = 1_000;
const callUsdMax = 0.01;
const rateLimits = { requests_per_minute: 100_000, tokens_per_minute: 100_000_000, concurrent_requests: 10_000 };
const plainBody = { model, messages: [{ role: 'user', content: 'Hi' }], max_tokens: 1 };

/** How an upstream answers. */
const behaviourOf = (answer: string, tokens: number): Behaviour => {
  switch (answer) {
    case 'whole':
      return { tokens };
    case 'no usage':
      return { tokens, usage: 'absent' };
    case 'cut':
      return { tokens, fault: { kind: 'cut', afterChunks: 1 } };
    case 'away':
      return { instead: { status: 503, headers: { 'retry-after': '1' }, body: { error: 'away' } } };
    default:
      return {
        instead: { status: 400, body: { error: { message: "This model's maximum context length is 4096 tokens." } } },
      };
  }
};

/** Starts the history of two organizations, whose calls and jobs two replicas run. */
export async function startHistory(): Promise<History> {
  const simulator = await startUpstreamSimulator();
  const database = await createTestDatabase();
  const history = new History(simulator, database);
  await history.begin();
  return history;
}

/** A call with what its client received of it. */
type Made = Received & { mark: string; caller: Caller; call: Call; by: TestGateway; code: string | null };
type Member = { email: string; password: string; tenantId: string };

class History {
  readonly #simulator: UpstreamSimulator;
  readonly #database: TestDatabase;
  #first!: TestGateway;
  #second!: TestGateway;
  #replicas!: TwoReplicas;
  #isAlone = false;
  #hasRestarted = false;
  readonly #people = {} as Record<'owner' | 'guest' | 'healer', Member>;
  readonly #tokens: Record<string, string> = {};
  readonly #keys = {} as Record<'capped' | 'other' | 'guest', { id: string; key: string }>;
  readonly #scripts = new Map<string, { answers: string[]; tokens: number; holdMs: number }>();
  readonly #received: Made[] = [];
  readonly #jobs: { id: string; caller: Caller; mark: string }[] = [];
  readonly #usd = new Set<number>([10]);
  #turn = 0;
  #marks = 0;

  constructor(simulator: UpstreamSimulator, database: TestDatabase) {
    this.#simulator = simulator;
    this.#database = database;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#close();
    await this.#database.drop();
    await this.#simulator.close();
  }

  async #close(): Promise<void> {
    const open = [this.#second, this.#first].filter((one) => one !== undefined);
    this.#first = undefined!;
    this.#second = undefined!;
    for (const one of open) await one[Symbol.asyncDispose]();
  }

  #start(): Promise<TestGateway> {
    const env = {
      UPSTREAM_BASE_URL: this.#simulator.url,
      UPSTREAM_API_KEY: 'the-upstreams-own-key',
      TRUSTED_PROXIES: '127.0.0.1',
    };
    return startTestGateway({ env, databaseUrl: this.#database.url });
  }

  async begin(): Promise<void> {
    this.#simulator.otherwise((entry) => this.#behaviour(entry));
    this.#first = await this.#start();
    this.#second = await this.#start();
    this.#replicas = new TwoReplicas(this.#first, this.#second);
    this.#people.owner = { ...owner, tenantId: '' };
    const token = await this.#session('owner');
    this.#people.owner.tenantId = (await this.#api('GET', '/profile', token)).json.organization.id;
    for (const name of ['guest', 'healer'] as const) {
      const made = await this.#replicas.makeOrganization(token, name);
      this.#people[name] = { ...made.owner, tenantId: made.id };
    }
    await this.#operator('POST', '/models', { name: model, operations: ['chat_completions'] });
    for (const upstream_model of ['sim-chat', 'sim-chat-2'])
      await this.#operator('POST', '/deployments', { model, base_url: this.#simulator.url, upstream_model });
    await this.#operator('POST', '/prices', { model, output_per_million_tokens_usd: 10 });
    await this.#operator('PUT', '/plans/own', { name: 'Own', payg_enabled: true });
    await this.#operator('PUT', `/organizations/${this.#people.owner.tenantId}/plan`, { code: 'own' });
    await this.#operator('PUT', `/organizations/${this.#people.guest.tenantId}/plan`, { code: 'prepaid' });
    await this.#operator('POST', `/organizations/${this.#people.guest.tenantId}/credits`, {
      amount_usd: 0.03,
      source: 'promotion',
    });
    for (const { tenantId } of Object.values(this.#people)) {
      await this.#operator('PATCH', `/organizations/${tenantId}`, { rate_limits: rateLimits });
    }
    this.#keys.capped = await this.#first.createKey(await this.#session('owner'), { spend_cap_usd: 0.1 });
    this.#keys.other = await this.#first.createKey(await this.#session('owner'), { spend_cap_usd: otherCapUsd });
    this.#keys.guest = await this.#first.createKey(await this.#session('guest'));
    await waitFor(async () => (await this.#heal()).every(({ status }) => status === 200), {
      description: 'the model at both replicas',
    });
  }

  async perform(acts: readonly Act[]): Promise<void> {
    const done = await Promise.allSettled(acts.map((act) => this.#perform(act)));
    for (const one of done) if (one.status === 'rejected') throw one.reason;
    this.#isAlone = false;
    if (acts.some((act) => act.kind === 'call' || act.kind === 'job')) await this.#heal();
  }

  async #perform(act: Act): Promise<void> {
    const organization = `/organizations/${this.#people.owner.tenantId}`;
    const of = (isGuest: boolean) => `/organizations/${this.#people[isGuest ? 'guest' : 'owner'].tenantId}`;
    switch (act.kind) {
      case 'call':
        return this.#call(act);
      case 'job':
        return this.#submit(act);
      case 'cancel': {
        const job = this.#jobs[act.pick % this.#jobs.length];
        if (job === undefined) return;
        const answer = await this.#api('POST', `/jobs/${job.id}/cancel`, await this.#session(ownerOf(job.caller)));
        expect(answer.status, answer.text).toBe(200);
        return;
      }
      case 'cap':
        return this.#mayMiss(
          await this.#api('PATCH', `/api-keys/${this.#keys.capped.id}`, await this.#session('owner'), {
            spend_cap_usd: act.limit,
          }),
        );
      case 'rotate': {
        const of = this.#keys.capped;
        const answer = await this.#api('POST', `/api-keys/${of.id}/rotate`, await this.#session('owner'), {
          grace_period_seconds: act.graceSeconds,
        });
        this.#mayMiss(answer, 409);
        if (answer.status < 300 && this.#keys.capped === of) this.#keys.capped = { id: of.id, key: answer.json.key };
        return;
      }
      case 'renew': {
        const { id } = this.#keys.capped;
        const made = await this.#api('POST', '/api-keys', await this.#session('owner'), {
          name: 'renewed',
          spend_cap_usd: 0.05,
        });
        expect(made.status, made.text).toBe(201);
        this.#keys.capped = made.json;
        this.#mayMiss(await this.#api('DELETE', `/api-keys/${id}`, await this.#session('owner')));
        return;
      }
      case 'personal':
        return this.#limit('/profile/cost-limit', act.limit);
      case 'payg cap':
        return this.#limit('/billing/payg-spend-cap', act.limit);
      case 'plan':
        return this.#operator('PUT', '/plans/own', { name: 'Own', payg_enabled: act.payg });
      case 'credit':
        return this.#operator('POST', `${of(act.isGuest)}/credits`, { amount_usd: act.amount, source: 'purchase' });
      case 'adjust': {
        const answer = await this.#api('POST', `/admin${organization}/adjustments`, await this.#session('owner'), {
          amount_usd: -act.amount,
          description: 'taken',
        });
        expect([201, 409], answer.text).toContain(answer.status);
        return;
      }
      case 'commit': {
        const body = {
          amount_usd: act.amount,
          period_start: new Date(Date.now() - 3_600_000).toISOString(),
          period_end: new Date(Date.now() + 3_600_000).toISOString(),
        };
        const answer = await this.#api(
          'POST',
          `/admin${of(act.isGuest)}/commitments`,
          await this.#session('owner'),
          body,
        );
        expect([201, 409], answer.text).toContain(answer.status);
        return;
      }
      case 'end commitments': {
        const path = `/admin${of(act.isGuest)}/commitments`;
        const { data } = (await this.#api('GET', path, await this.#session('owner'))).json;
        for (const { id } of data) await this.#api('POST', `${path}/${id}/end`, await this.#session('owner'));
        return;
      }
      case 'suspend': {
        const path = `${of(true)}/${act.is ? 'suspend' : 'restore'}`;
        return this.#operator('POST', path, act.is ? { reason: 'A test.' } : undefined);
      }
      case 'price':
        this.#usd.add(act.usd);
        return this.#operator('POST', '/prices', { model, output_per_million_tokens_usd: act.usd });
      case 'deployment':
        return this.#changeDeployment(0, { enabled: act.enabled });
      case 'move':
        return this.#changeDeployment(1, { upstream_model: `sim-${++this.#marks}` });
      case 'restart': {
        if (this.#isAlone) return;
        this.#isAlone = true;
        this.#hasRestarted = true;
        const old = this.#second;
        this.#second = this.#first;
        await this.#hasHeardAll(old);
        await old[Symbol.asyncDispose]();
        this.#second = await this.#start();
        this.#replicas = new TwoReplicas(this.#first, this.#second);
        return;
      }
      default:
        return act satisfies never;
    }
  }

  async #call(call: Call): Promise<void> {
    const mark = `mark-${++this.#marks};`;
    this.#scripts.set(mark, { answers: [call.answer], tokens: call.tokens, holdMs: call.holdMs });
    const received: Made = { ...nothingYet(), mark, caller: call.caller, call, by: this.#one(), code: null };
    this.#received.push(received);
    const credential = await this.#credential(call.caller);
    const headers = { authorization: `Bearer ${credential}`, 'content-type': 'application/json' };
    const body = JSON.stringify({
      model,
      messages: [{ role: 'user', content: mark }],
      max_tokens: call.tokensMax,
      stream: call.isStream,
    });
    const untilAsked = () => this.#simulator.waitFor((entry) => markOf(entry) === mark);
    const url = `${received.by.url}/v1/chat/completions`;
    await receive(received, url, { headers, body }, { leaves: call.leaves, untilAsked });
    if (received.status >= 400 && received.isWhole) received.code = JSON.parse(received.bytes.toString()).error.code;
  }

  /** A replica that ends runs to their end the calls that it has got; others would find nobody. */
  async #hasHeardAll(replica: TestGateway): Promise<void> {
    const isHeard = ({ by, status, hasLeft, mark }: Made) =>
      by !== replica || status !== 0 || hasLeft || this.#simulator.requests.some((entry) => markOf(entry) === mark);
    await waitFor(() => this.#received.every(isHeard), { description: 'calls to have arrived' });
  }

  async #submit(job: Job): Promise<void> {
    const mark = `mark-${++this.#marks};`;
    this.#scripts.set(mark, { answers: job.answers, tokens: job.tokens, holdMs: job.holdMs });
    const body = { model, messages: [{ role: 'user', content: mark }], max_tokens: tokensMax, background: true };
    const answer = await this.#one().call('POST', '/v1/chat/completions', await this.#credential(job.caller), body);
    expect([202, 401, 403, 429, 503], answer.text).toContain(answer.status);
    if (answer.status === 202) this.#jobs.push({ id: answer.json.id, caller: job.caller, mark });
  }

  /** Compares everything that came of it all. */
  async finish(): Promise<void> {
    try {
      await this.#finish();
    } catch (difference) {
      const told = this.#received.map(({ bytes: _bytes, by: _by, ...received }) => JSON.stringify(received));
      throw new Error(told.join('\n'), { cause: difference });
    }
  }

  async #finish(): Promise<void> {
    await waitFor(() => this.#simulator.requests.every(({ outcome }) => outcome !== 'running'), {
      description: 'the end of all attempts',
    });
    for (const person of ['owner', 'guest'] as const) {
      await waitFor(
        async () => {
          const { by_status } = (await this.#api('GET', '/jobs/stats', await this.#session(person))).json;
          return by_status.queued + by_status.in_progress === 0;
        },
        { description: 'the end of all jobs', timeoutMs: 30_000 },
      );
    }
    await waitFor(
      async () => {
        await this.#compareCalls();
        await this.#compareMoney();
        return true;
      },
      { description: 'all to be as it should' },
    );
    await this.#compareMetrics();
    await this.#compareConcurrency();
    await this.#close();
    const rows = await this.#query(
      `select id from billing.leases where state = 1 or room_nano_usd > charged_nano_usd
       union all select subject_id from billing.spend where held_nano_usd <> 0`,
    );
    expect(rows, 'what is held').toEqual([]);
  }

  /** Each call has one event, which says what its upstream did. */
  async #compareCalls(): Promise<void> {
    const truth = Map.groupBy(this.#simulator.requests, markOf);
    const events = [...(await this.#events('owner')), ...(await this.#events('guest'))];
    for (const received of this.#received) {
      const { mark, requestId, status, isWhole, hasLeft } = received;
      const attempts = truth.get(mark) ?? [];
      const what = JSON.stringify({ ...received, by: undefined, bytes: received.bytes.toString().slice(0, 300) });
      if (!hasLeft) expect([200, 400, 401, 403, 429, 502, 503], what).toContain(status);
      if (requestId === '') continue;
      const own = events.filter(({ request_id }) => request_id === requestId);
      expect(own.length, what).toBeLessThanOrEqual(1);
      if (attempts.length > 0) expect(own.length, what).toBe(1);
      const [event] = own;
      if (event === undefined) continue;
      if (!hasLeft) expect(event.status, what).toBe(status);
      if (status >= 400) expect([event.cost_usd, event.success], what).toEqual([0, false]);
      const last = attempts.at(-1);
      if (status === 200 && isWhole && last?.outcome === 'completed' && last.reportedUsage !== null)
        expect(event.output_tokens, what).toBe(last.generatedTokens);
    }
    for (const event of events) {
      expect(event.output_tokens, JSON.stringify(event)).toBeLessThanOrEqual(tokensMax);
      const costs = [...this.#usd].map((usd) => event.output_tokens * usd * 1_000);
      expect(costs, JSON.stringify(event)).toContain(nano([event]));
    }
    for (const { id, caller, mark } of this.#jobs) {
      const { json } = await this.#api('GET', `/jobs/${id}`, await this.#session(ownerOf(caller)));
      if (json.status !== 'completed') continue;
      const answers = (truth.get(mark) ?? []).filter(({ outcome }) => outcome === 'completed').map(({ text }) => text);
      expect(answers, json.id).toContain(json.result.choices[0].message.content);
    }
  }

  /** Budgets, charges, the invoice and reports all say what the events do. */
  async #compareMoney(): Promise<void> {
    const session = await this.#session('owner');
    for (const name of ['capped', 'other'] as const) {
      const { id } = this.#keys[name];
      const spent = nano((await this.#events('owner')).filter(({ api_key_id }) => api_key_id === id));
      const { budget } = (await this.#api('GET', `/api-keys/${id}`, session)).json;
      if (budget !== null) expect(Math.round(budget.spent_today_usd * 1e9), name).toBe(spent);
      if (name === 'other') expect(spent).toBeLessThan((otherCapUsd + callUsdMax) * 1e9);
    }
    for (const person of ['owner', 'guest'] as const) {
      const get = async (path: string) => (await this.#api('GET', path, await this.#session(person))).json;
      const events = await this.#events(person);
      const cost = nano(events);
      const transactions = (await get('/billing/documents/transactions?type=usage&limit=100')).data;
      const [invoice = { subtotal_usd: 0, total_usd: 0 }] = (await get('/billing/documents/invoices')).data;
      const current = await get('/usage/current?scope=tenant');
      const figures = [
        (await get('/profile/cost-limit')).spent_usd,
        transactions.reduce((sum: number, { amount_usd }: Json) => sum - amount_usd, 0),
        invoice.subtotal_usd,
        current.cost_usd,
      ];
      expect(
        figures.map((usd) => Math.round(usd * 1e9)),
        person,
      ).toEqual([cost, cost, cost, cost]);
      expect(current.requests, person).toBe(events.length);
      expect(transactions.length, person).toBe(events.filter(({ cost_usd }) => cost_usd > 0).length);
      expect((await get('/billing/payg-spend-cap')).spent_usd, person).toBe(invoice.total_usd);
    }
    const billing = this.#first.gateway.switchboard.client('admin', BillingService);
    const { faults } = await billing.verifyLedger(
      { tenantId: '' },
      { contextValues: callerContext(serviceCaller('admin')) },
    );
    expect(faults).toEqual([]);
  }

  /** Of replicas that were there from the beginning, all counters together are what is stored. */
  async #compareMetrics(): Promise<void> {
    if (this.#hasRestarted) return;
    const texts = await Promise.all([this.#first, this.#second].map((one) => one.call('GET', '/metrics')));
    const total = (name: string, label: string) =>
      texts
        .flatMap(({ text }) => text.split('\n'))
        .filter((line) => line.startsWith(`${name}{`) && line.includes(label))
        .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
    const [events] = await this.#query(
      'select count(*)::int as count, sum(output_tokens)::int as tokens from usage.events',
    );
    const [jobs] = await this.#query('select count(*)::int as count from jobs.jobs where ended_at is not null');
    const counted = [
      total('gateway_usage_events_total', 'stored'),
      total('gateway_tokens_total', 'output'),
      total('gateway_jobs_ended_total', ''),
      total('gateway_upstream_in_flight', ''),
    ];
    expect(counted).toEqual([events.count, events.tokens, jobs.count, 0]);
  }

  /** No call that has ended counts as running still: where each replica has room for one, both let one through. */
  async #compareConcurrency(): Promise<void> {
    for (const path of ['/profile/cost-limit', '/billing/payg-spend-cap']) await this.#limit(path, null);
    await this.perform([
      { kind: 'plan', payg: true },
      { kind: 'suspend', is: false },
      { kind: 'credit', amount: 0.1, isGuest: true },
    ]);
    for (const person of ['owner', 'guest'] as const) {
      const token = await this.#session(person);
      const path = `/organizations/${this.#people[person].tenantId}`;
      await this.#operator('PATCH', path, { rate_limits: { ...rateLimits, concurrent_requests: 2 } });
      await waitFor(
        async () => {
          for (const one of [this.#first, this.#second]) {
            const { limits } = (await one.call('GET', '/api/v1/rate-limits', token)).json;
            expect(limits.concurrent_requests).toBe(2);
            const answer = await one.call('POST', '/v1/chat/completions', token, plainBody);
            expect(answer.status, answer.text).toBe(200);
          }
          return true;
        },
        { description: `calls of ${person}, one at a time` },
      );
    }
  }

  async #query(text: string): Promise<Json[]> {
    const client = new pg.Client({ connectionString: this.#database.url });
    await client.connect();
    try {
      return (await client.query(text)).rows;
    } finally {
      await client.end();
    }
  }

  async #events(person: 'owner' | 'guest'): Promise<Json[]> {
    const answer = await this.#api('GET', '/usage/history?scope=tenant&limit=500', await this.#session(person));
    expect(answer.status, answer.text).toBe(200);
    return answer.json.data;
  }

  #behaviour(entry: TruthEntry): Behaviour {
    const script = this.#scripts.get(markOf(entry));
    if (script === undefined) return { tokens: 1 };
    const earlier = this.#simulator.requests.filter((one) => one !== entry && markOf(one) === markOf(entry)).length;
    const answer = script.answers[earlier] ?? (script.answers.length === 1 ? script.answers[0]! : 'whole');
    const { holdMs, tokens } = script;
    return { ...behaviourOf(answer, tokens), ...(holdMs > 0 && { hold: { until: delay(holdMs) } }) };
  }

  async #heal(): Promise<Answer[]> {
    const token = await this.#session('healer');
    return Promise.all(
      [this.#first, this.#first, this.#second, this.#second].map((one) =>
        one.call('POST', '/v1/chat/completions', token, plainBody),
      ),
    );
  }

  #one(): TestGateway {
    this.#turn += 1;
    return this.#turn % 2 === 0 ? this.#first : this.#second;
  }

  async #credential(caller: Caller): Promise<string> {
    if (caller === 'session') return this.#session('owner');
    return this.#keys[caller].key;
  }

  async #session(person: 'owner' | 'guest' | 'healer'): Promise<string> {
    const { email, password } = this.#people[person];
    this.#tokens[person] ??= await this.#first.login({ email, password });
    return this.#tokens[person];
  }

  async #limit(path: string, limit: number | null): Promise<void> {
    const token = await this.#session('owner');
    const answer = await (limit === null
      ? this.#api('DELETE', path, token)
      : this.#api('PUT', path, token, { limit_usd: limit }));
    expect([200, 204], answer.text).toContain(answer.status);
  }

  async #changeDeployment(index: number, change: object): Promise<void> {
    const path = `/admin/models/${encodeURIComponent(model)}`;
    const { deployments } = (await this.#api('GET', path, await this.#session('owner'))).json;
    return this.#operator('PATCH', `/deployments/${deployments[index].id}`, change);
  }

  #mayMiss(answer: Answer, ...others: number[]): void {
    expect([200, 201, 204, 404, ...others], answer.text).toContain(answer.status);
  }

  async #operator(method: string, path: string, body?: object): Promise<void> {
    const answer = await this.#api(method, `/admin${path}`, await this.#session('owner'), body);
    expect(answer.status, `${method} ${path}: ${answer.text}`).toBeLessThan(300);
  }

  /** Through the first replica, which is never restarted. */
  #api(method: string, path: string, token: string, body?: object): Promise<Answer> {
    return this.#first.call(method, `/api/v1${path}`, token, body);
  }
}

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape; the comparisons are the types.
type Json = any;

const ownerOf = (caller: Caller) => (caller === 'guest' ? 'guest' : 'owner');
const nano = (events: readonly Json[]): number =>
  events.reduce((sum, { cost_usd }) => sum + Math.round(cost_usd * 1e9), 0);
