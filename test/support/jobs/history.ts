import { Registry } from 'prom-client';
import { expect } from 'vitest';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { reclaimLapsed } from '../../../services/jobs/db/leases.ts';
import { leaseMs } from '../../../services/jobs/db/take-jobs.ts';
import { openJobsDatabase } from '../../../services/jobs/fixtures/test-queue.ts';
import { channels } from '../../../services/jobs/workers/channels.ts';
import { startJobWorker } from '../../../services/jobs/workers/start.ts';
import { ClockAhead } from '../clock-ahead.ts';
import { type Answer, owner, type TestGateway } from '../gateway.ts';
import { markOf } from '../random-histories.ts';
import { silentLogger } from '../silent-logger.ts';
import type { Behaviour } from '../simulator/behaviour.ts';
import { startTwoReplicas, type TwoReplicas } from '../two-replicas.ts';
import { startUpstreamSimulator, type TruthEntry, type UpstreamSimulator } from '../upstream-simulator.ts';
import { waitFor } from '../wait-for.ts';
import type { Act, Caller, Outcome } from './acts.ts';
import { JobsModel, type ModelJob, ownerOf, terms } from './model.ts';

const dayMs = 24 * 3_600_000;
const waits = { momentMs: 61_000, dayMs: dayMs + 3_600_000 };
const models = { public: 'sim-chat', private: 'acme/private' } as const;
const modelOf = (isPrivate: boolean) => (isPrivate ? models.private : models.public);

const behaviours: Readonly<Record<Outcome, Behaviour>> = {
  ok: { tokens: terms.tokens },
  refused: {
    instead: { status: 400, body: { error: { message: "This model's maximum context length is 4096 tokens." } } },
  },
  away: {
    instead: { status: 503, headers: { 'retry-after': `${terms.retryAfterSeconds}` }, body: { error: 'away' } },
  },
};

/** Starts the history of the jobs of two people, run by two workers. */
export async function startHistory(): Promise<History> {
  const clock = new ClockAhead();
  const simulator = await startUpstreamSimulator();
  const env = { UPSTREAM_BASE_URL: simulator.url, UPSTREAM_API_KEY: 'the-upstreams-own-key' };
  const replicas = await startTwoReplicas({ clock, env, worker: false });
  const database = await openJobsDatabase(replicas.both[0].env.databaseUrl!);
  const history = new History(clock, simulator, replicas, database);
  await history.begin();
  return history;
}

type Worker = Awaited<ReturnType<typeof startJobWorker>>;
type Member = { email: string; password: string; tenantId: string };

class History {
  readonly model = new JobsModel();
  readonly #clock: ClockAhead;
  readonly #simulator: UpstreamSimulator;
  readonly #replicas: TwoReplicas;
  readonly #database: ServiceDatabase;
  /** Opened when the upstream answers the call with this mark and number. */
  readonly #gates = new Map<string, PromiseWithResolvers<void>>();
  readonly #people = {} as Record<'owner' | 'guest' | 'healer', Member>;
  readonly #sessions = new Map<string, { token: string; endsMs: number }>();
  /** The first submissions under Idempotency-Keys. */
  readonly #submitted = new Map<string, { mark: string; isPrivate: boolean; job: ModelJob }>();
  readonly #scripts = new Map<string, readonly Outcome[]>();
  /** The marks of calls whose next answer is lost. */
  readonly #losing = new Set<string>();
  #workers: Worker[] = [];
  #key = { id: '', key: '' };
  #guestKey = { id: '', key: '' };
  #marks = 0;

  constructor(clock: ClockAhead, simulator: UpstreamSimulator, replicas: TwoReplicas, database: ServiceDatabase) {
    this.#clock = clock;
    this.#simulator = simulator;
    this.#replicas = replicas;
    this.#database = database;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const worker of this.#workers) await worker.close();
    await this.#database.close();
    await this.#replicas[Symbol.asyncDispose]();
    await this.#simulator.close();
  }

  async begin(): Promise<void> {
    this.#simulator.otherwise((call) => this.#behaviour(call));
    this.#people.owner = { ...owner, tenantId: '' };
    const token = await this.#session('owner');
    this.#people.owner.tenantId = (await this.#api('GET', '/profile', token)).json.organization.id;
    for (const name of ['guest', 'healer'] as const) {
      const made = await this.#replicas.makeOrganization(token, name);
      this.#people[name] = { ...made.owner, tenantId: made.id };
    }
    await this.#operator('POST', '/models', {
      name: models.private,
      visibility: 'private',
      operations: ['chat_completions'],
    });
    const deployment = { model: models.private, base_url: this.#simulator.url, upstream_model: models.public };
    await this.#operator('POST', '/deployments', deployment);
    for (const model of Object.values(models)) {
      const price = { model, output_per_million_tokens_usd: terms.usdPerMillionTokens };
      await this.#operator('POST', '/prices', price);
    }
    for (const { tenantId } of Object.values(this.#people)) {
      await this.#operator('POST', '/grants', { model: models.private, tenant_id: tenantId });
      await this.#operator('POST', `/organizations/${tenantId}/credits`, {
        amount_usd: terms.creditUsd,
        source: 'promotion',
      });
      const limits = { requests_per_minute: 100_000, tokens_per_minute: 100_000_000 };
      await this.#operator('PATCH', `/organizations/${tenantId}`, { rate_limits: limits });
    }
    this.#key = await this.#newKey();
    this.#guestKey = await this.#replicas.both[0].createKey(await this.#session('guest'));
    await waitFor(async () => (await this.#heal()).every(({ status }) => status === 200), {
      description: 'both models at both replicas',
    });
    await this.#startWorkers();
  }

  /** Does the same in both; what must be refused must be refused in both. */
  async perform(act: Act): Promise<void> {
    const { model } = this;
    model.nowMs = this.#clock.now();
    switch (act.kind) {
      case 'submit':
        return this.#submit(act);
      case 'answer': {
        const job = chosen(
          model.jobs.filter(({ state }) => state === 'running'),
          act.pick,
        );
        return job && this.#answer(job);
      }
      case 'lose': {
        const job = chosen(
          model.jobs.filter((one) => one.state === 'running' && !one.isDoubled && model.outcomeOf(one) === 'ok'),
          act.pick,
        );
        return job && this.#lose(job);
      }
      case 'cancel': {
        const job = chosen(model.jobs, act.pick);
        if (job === undefined) return;
        const credential = await this.#credential(act.caller);
        const answer = await this.#api('POST', `/jobs/${job.id}/cancel`, credential);
        expect(answer.status, answer.text).toBe(ownerOf(act.caller) === ownerOf(job.caller) ? 200 : 404);
        if (answer.status === 200) model.cancel(job);
        return;
      }
      case 'delete': {
        const job = chosen(model.jobs, act.pick);
        if (job === undefined) return;
        const person = ownerOf(act.caller);
        const answer = await this.#api('DELETE', `/jobs/${job.id}`, await this.#session(person));
        expect(answer.status, answer.text).toBe(person === ownerOf(job.caller) ? model.delete(job) : 404);
        return;
      }
      case 'wait':
        return this.#wait(act.isDay);
      case 'renew': {
        const answer = await this.#api('DELETE', `/api-keys/${this.#key.id}`, await this.#session('owner'));
        expect(answer.status, answer.text).toBe(204);
        this.#key = await this.#newKey();
        return model.renewKey();
      }
      case 'scope': {
        const scopes = ['jobs:read_own', 'jobs:cancel_own', ...(act.has ? ['inference:chat'] : [])];
        const answer = await this.#api('PATCH', `/api-keys/${this.#key.id}`, await this.#session('owner'), { scopes });
        expect(answer.status, answer.text).toBe(200);
        model.hasScope = act.has;
        return;
      }
      case 'suspend': {
        const path = `/organizations/${this.#people.guest.tenantId}/${act.is ? 'suspend' : 'restore'}`;
        await this.#operator('POST', path, act.is ? { reason: 'A test.' } : undefined);
        model.isSuspended = act.is;
        return;
      }
      case 'grant': {
        const person = act.isGuest ? 'guest' : 'owner';
        if (model.granted[person] === act.has) return;
        const { tenantId } = this.#people[person];
        if (act.has) await this.#operator('POST', '/grants', { model: models.private, tenant_id: tenantId });
        else {
          const query = `model=${encodeURIComponent(models.private)}&tenant_id=${tenantId}`;
          await this.#operator('DELETE', `/grants?${query}`);
        }
        model.granted[person] = act.has;
        return this.#waitForGrant(person, act.has);
      }
      case 'rotate': {
        const answer = await this.#api('POST', `/api-keys/${this.#key.id}/rotate`, await this.#session('owner'));
        expect(answer.status, answer.text).toBe(200);
        this.#key = { id: this.#key.id, key: answer.json.key };
        return;
      }
      case 'retire': {
        if (model.isRetired) return;
        const sunsetMs = Math.floor(model.nowMs / 1_000 + act.seconds) * 1_000;
        const body = { sunset_at: new Date(sunsetMs).toISOString() };
        const path = `/retirements/${encodeURIComponent(models.private)}`;
        if (model.sunsetMs === Number.POSITIVE_INFINITY)
          await this.#operator('POST', '/retirements', { ...body, model: models.private, retirement_note: 'A test.' });
        else await this.#operator('PATCH', path, body);
        model.sunsetMs = sunsetMs;
        return this.#waitForSunset(new Date(sunsetMs).toUTCString());
      }
      case 'keep': {
        if (model.isRetired || model.sunsetMs === Number.POSITIVE_INFINITY) return;
        await this.#operator('DELETE', `/retirements/${encodeURIComponent(models.private)}`);
        model.sunsetMs = Number.POSITIVE_INFINITY;
        return this.#waitForSunset(null);
      }
      case 'restart':
        for (const worker of this.#workers) await worker.close();
        model.runAgain(true);
        return this.#startWorkers();
      case 'silence': {
        model.runAgain(false);
        await reclaimLapsed(this.#database, this.#clock.aheadMs + leaseMs + 1_000);
        return;
      }
      default:
        return act satisfies never;
    }
  }

  /** All jobs, their calls in flight, their counts, their charges and the key's budget match the model, within a few seconds. */
  async compare(): Promise<void> {
    await waitFor(
      async () => {
        for (const person of ['owner', 'guest'] as const) await this.#compareOf(person);
        return true;
      },
      { description: 'all to be as it should', timeoutMs: 5_000 },
    );
  }

  async #compareOf(person: 'owner' | 'guest'): Promise<void> {
    const { model } = this;
    const session = await this.#session(person);
    const own = model.jobs.filter(({ caller }) => ownerOf(caller) === person);
    const listed = (await this.#api('GET', '/jobs?limit=100', session)).json.data as Json[];
    expect(listed.map(({ id, status, model, error }) => ({ id, status, model, code: error?.code ?? null }))).toEqual(
      own.map(({ id, status, isPrivate, code }) => ({ id, status, model: modelOf(isPrivate), code })),
    );
    const { total, by_status: counts } = (await this.#api('GET', '/jobs/stats', session)).json;
    expect(total).toBe(own.length);
    for (const [status, count] of Object.entries(counts)) {
      expect(count, status).toBe(own.filter((job) => job.status === status).length);
    }
    for (const job of own) {
      const calls = this.#simulator.requests.filter((call) => markOf(call) === job.mark);
      const inTheAir = calls.filter(({ outcome }) => outcome === 'running').length;
      if (job.state === 'running') expect(inTheAir, job.mark).toBeGreaterThan(0);
      // Of two workers, the one that lost the job hears of it within a few seconds.
      else if (!job.isDoubled) expect(inTheAir, job.mark).toBe(0);
      if (job.status !== 'completed') continue;
      const { result } = (await this.#api('GET', `/jobs/${job.id}`, session)).json;
      const answers = calls.filter(({ outcome }) => outcome === 'completed').map(({ text }) => text);
      expect(answers, job.mark).toContain(result.choices[0].message.content);
    }
    const charges = (await this.#api('GET', '/usage/history?limit=100', session)).json.data as Json[];
    const told = charges.map(({ success, cost_usd, error_code }) => JSON.stringify([success, cost_usd, error_code]));
    const expected = model.charges[person].map((charge) => ({
      text: JSON.stringify([charge.success, charge.costUsd, charge.code]),
      mayBeTwo: charge.mayBeTwo,
    }));
    const extra: string[] = [];
    for (const { text, mayBeTwo } of expected) {
      expect(told, `of ${person}`).toContain(text);
      told.splice(told.indexOf(text), 1);
      if (mayBeTwo) extra.push(text);
    }
    for (const text of told) expect(extra.splice(extra.indexOf(text), 1)).toEqual([text]);
    if (person === 'guest') return;
    const { budget } = (await this.#api('GET', `/api-keys/${this.#key.id}`, session)).json;
    expect(budget.spent_today_usd).toBe(model.spentMicroUsd / 1e6);
  }

  async #submit({ caller, isPrivate, script, repeat }: Act & { kind: 'submit' }): Promise<void> {
    const { model } = this;
    const under = repeat === null ? null : `${caller} ${caller === 'key' ? model.keyNumber : ''} ${repeat.key}`;
    const known = under === null ? undefined : this.#submitted.get(under);
    // Including that of a deleted job.
    const isKnown = known !== undefined && model.nowMs < known.job.createdMs + dayMs;
    const isSame = isKnown && !repeat!.isOther;
    const mark = isSame ? known.mark : `mark-${++this.#marks};`;
    const isOfPrivate = isSame ? known.isPrivate : isPrivate;
    const body = {
      model: modelOf(isOfPrivate),
      messages: [{ role: 'user', content: mark }],
      max_tokens: terms.maxTokens,
    };
    const headers = under === null ? undefined : { 'idempotency-key': `key-${repeat!.key}` };
    const send = async (): Promise<Answer> => {
      const credential = await this.#credential(caller);
      return caller === 'session'
        ? this.#api('POST', '/jobs', credential, { endpoint: '/v1/chat/completions', body }, headers)
        : this.#replicas.call('POST', '/v1/chat/completions', credential, { ...body, background: true }, headers);
    };
    const [status, code] = model.submitted(caller, isOfPrivate);
    // What a call is refused for that may be the repeat of one that was not.
    const isOfCall = code === 'spend_cap_exceeded' || code === 'model_not_found' || code === 'model_sunset';
    const isRefused = code !== null && !(isKnown && isOfCall);
    const expected = isRefused ? [status, code] : isKnown ? this.#repeated(known.job, isSame) : [202, null];
    if (!this.#scripts.has(mark)) this.#scripts.set(mark, script);
    // Room is free again a moment after a job's end.
    const answer = await waitFor(
      async () => {
        const answer = await send();
        return (answer.json.error?.code !== 'spend_cap_exceeded' || expected[0] === 429) && answer;
      },
      { description: 'room for a job' },
    );
    expect([answer.status, answer.status === 202 ? null : answer.json.error.code], answer.text).toEqual(expected);
    if (answer.status !== 202) return;
    if (isKnown) {
      expect(answer.json.id).toBe(known.job.id);
      return;
    }
    model.add({ id: answer.json.id, mark, caller, isPrivate: isOfPrivate, script });
    if (under !== null) this.#submitted.set(under, { mark, isPrivate: isOfPrivate, job: model.jobs[0]! });
  }

  /** The answer to a submission whose Idempotency-Key stands for a job. */
  #repeated(job: ModelJob, isSame: boolean): [number, string | null] {
    if (!isSame) return [400, 'idempotency_key_reused'];
    return this.model.jobs.includes(job) ? [202, null] : [404, 'not_found'];
  }

  async #answer(job: ModelJob): Promise<void> {
    const outcome = this.model.outcomeOf(job);
    this.#gate(job.mark, job.answered).resolve();
    this.model.answer(job);
    if (outcome !== 'away') return;
    await waitFor(
      () => !this.#simulator.requests.some((call) => markOf(call) === job.mark && call.outcome === 'running'),
      {
        description: 'the fault to be heard of',
      },
    );
    await this.#heal();
  }

  async #lose(job: ModelJob): Promise<void> {
    this.#losing.add(job.mark);
    this.#gate(job.mark, job.answered).resolve();
    this.model.lose(job);
    await waitFor(() => !this.#losing.has(job.mark), { description: 'the answer to be lost' });
    const id = job.id.slice('job_'.length);
    const charged = `select from billing.transactions where usage_event_id::text like '%' || substr($1::uuid::text, 15)`;
    await waitFor(async () => (await this.#database.query({ text: charged, values: [id] })).rowCount === 1, {
      description: 'the answer to be charged',
    });
    await this.#database.query({ text: `update jobs set lease_expires_at = '-infinity' where id = $1`, values: [id] });
    await reclaimLapsed(this.#database, this.#clock.aheadMs);
    // They look for themselves each second.
    await this.#database.query({ text: `select pg_notify('${channels.queued}', '')`, values: [] });
  }

  /** Edges hear of a grant, or of its end, a moment later. */
  async #waitForGrant(person: 'owner' | 'guest', has: boolean): Promise<void> {
    const token = await this.#session(person);
    await waitFor(
      async () => {
        const asked = this.#replicas.both.map((replica) => replica.call('GET', `/v1/models/${models.private}`, token));
        // A suspended organization is told nothing of models.
        return (await Promise.all(asked)).every(({ status }) => status === 403 || [200, 410].includes(status) === has);
      },
      { description: 'the grant at both replicas' },
    );
  }

  /** Edges hear of a date a moment later. */
  async #waitForSunset(sunset: string | null): Promise<void> {
    const token = await this.#session('healer');
    await waitFor(
      async () => {
        const path = `/v1/models/${encodeURIComponent(models.private)}`;
        const asked = this.#replicas.both.map((replica) => replica.call('GET', path, token));
        return (await Promise.all(asked)).every(({ headers }) => headers.get('sunset') === sunset);
      },
      { description: 'the date at both replicas' },
    );
  }

  /** What was charged fits, and nothing is held once no job waits. */
  async end(): Promise<void> {
    await this.#comparePaid();
    for (const job of this.model.jobs.filter(({ state }) => state !== 'ended')) {
      const answer = await this.#api('POST', `/jobs/${job.id}/cancel`, await this.#session(ownerOf(job.caller)));
      expect(answer.status, answer.text).toBe(200);
    }
    const held = async () =>
      (await this.#database.query({ text: 'select * from billing.spend where held_nano_usd <> 0', values: [] })).rows;
    await waitFor(
      async () => {
        expect(await held()).toEqual([]);
        return true;
      },
      { description: 'nothing to be held', timeoutMs: 30_000 },
    );
  }

  /** What was charged, and was not given back, matches the model. */
  async #comparePaid(): Promise<void> {
    const paid = async (person: 'owner' | 'guest') => {
      const { balance_usd } = (await this.#api('GET', '/billing/wallet', await this.#session(person))).json;
      return Math.round((terms.creditUsd - balance_usd) * 1e6);
    };
    const isPaid = async () => {
      expect({ owner: await paid('owner'), guest: await paid('guest') }).toEqual(this.model.paidMicroUsd);
      return true;
    };
    await waitFor(isPaid, { description: 'all to be paid as it should', timeoutMs: 5_000 });
  }

  async #wait(isDay: boolean): Promise<void> {
    const { model } = this;
    if (isDay) {
      for (;;) {
        const job = model.jobs.find(({ state }) => state === 'running');
        if (job === undefined) break;
        await this.#answer(job);
        await this.compare();
      }
    }
    const ms = isDay ? waits.dayMs : waits.momentMs;
    // The workers are alive, so this is what their heartbeats would have written meanwhile.
    const extended = "update jobs set lease_expires_at = lease_expires_at + $1::float8 * interval '1 millisecond'";
    await this.#database.query({ text: extended, values: [ms] });
    this.#clock.aheadMs += ms;
    model.wait(ms);
  }

  /** How the upstream answers a call, as soon as it may. */
  #behaviour(call: TruthEntry): Behaviour {
    const mark = markOf(call);
    const job = this.model.jobs.find((one) => one.mark === mark);
    const answered = job?.answered ?? 0;
    const script = this.#scripts.get(mark);
    if (script === undefined) return behaviours.ok;
    // Makes each answer a different one.
    const paddingBytes = Number(mark.slice('mark-'.length, -1));
    return {
      ...behaviours[script[answered] ?? 'ok'],
      paddingBytes,
      hold: { until: this.#gate(mark, answered).promise },
    };
  }

  #gate(mark: string, answered: number): PromiseWithResolvers<void> {
    const name = `${mark} ${answered}`;
    const gate = this.#gates.get(name) ?? Promise.withResolvers<void>();
    this.#gates.set(name, gate);
    return gate;
  }

  /** A success for each model at each replica, so that no deployment is given up because of a script's faults. */
  async #heal(): Promise<Answer[]> {
    const token = await this.#session('healer');
    const calls = this.#replicas.both.flatMap((replica) =>
      Object.values(models).map((model) => {
        const body = { model, messages: [{ role: 'user', content: 'Hi' }], max_tokens: 1 };
        return replica.call('POST', '/v1/chat/completions', token, body);
      }),
    );
    return Promise.all(calls);
  }

  async #startWorkers(): Promise<void> {
    this.#workers = await Promise.all(
      this.#replicas.both.map((replica) => startWorker(replica, (mark) => this.#losing.delete(mark))),
    );
  }

  #newKey = async () => this.#replicas.both[0].createKey(await this.#session('owner'), { spend_cap_usd: terms.capUsd });

  async #credential(caller: Caller): Promise<string> {
    if (caller === 'session') return this.#session('owner');
    return caller === 'key' ? this.#key.key : this.#guestKey.key;
  }

  async #session(person: 'owner' | 'guest' | 'healer'): Promise<string> {
    let session = this.#sessions.get(person);
    if (session === undefined || this.#clock.now() > session.endsMs) {
      const { email, password } = this.#people[person];
      const answer = await this.#api('POST', '/auth/login', '', { email, password });
      session = { token: answer.json.access_token, endsMs: this.#clock.now() + 10 * 60_000 };
      this.#sessions.set(person, session);
    }
    return session.token;
  }

  /** What an operator does, and may do. */
  async #operator(method: string, path: string, body?: object): Promise<void> {
    const answer = await this.#api(method, `/admin${path}`, await this.#session('owner'), body);
    expect(answer.status, `${method} ${path}: ${answer.text}`).toBeLessThan(300);
  }

  #api(method: string, path: string, token: string, body?: object, headers?: Record<string, string>): Promise<Answer> {
    return this.#replicas.call(method, `/api/v1${path}`, token, body, headers);
  }
}

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape; the comparisons are the types.
type Json = any;

const chosen = <Item>(items: readonly Item[], pick: number): Item | undefined => items[pick % items.length];

/** A worker of a replica, which leaves its jobs to others as soon as it is closed, and loses the answers of which it is told so. */
function startWorker(
  { env, gateway: { switchboard } }: TestGateway,
  isLost: (mark: string) => boolean,
): Promise<Worker> {
  const inference = switchboard.client('jobs', InferenceService);
  return startJobWorker({
    connection: env.databaseUrl!,
    inference: {
      async *invoke(request, options) {
        const mark = markOf({ body: Buffer.from(request.body!) });
        for await (const part of inference.invoke(request, options)) {
          if (part.end?.success === true && isLost(mark)) await aborted(options!.signal!);
          yield part;
        }
      },
    },
    billing: switchboard.client('jobs', BillingService),
    keys: switchboard.client('jobs', KeysService),
    auth: switchboard.client('jobs', AuthService),
    bodiesBytesMax: 1024 ** 3,
    registry: new Registry(),
    drainMs: 0,
    clock: env.clock,
    logger: silentLogger,
  });
}

const aborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
