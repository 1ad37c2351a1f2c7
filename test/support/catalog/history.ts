import { create } from '@bufbuild/protobuf';
import { expect } from 'vitest';
import { ModelSettingsSchema, Visibility } from '#gen/modelgateway/models/v1/model_pb.ts';
import { ImportedModelSchema, ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { statusOf } from '#shared/error-table.ts';
import { GatewayError } from '#shared/errors.ts';
import { CallerKind, CallerSchema, callerContext } from '#shared/rpc/caller.ts';
import { replayAudit } from '../audit-replay.ts';
import { ClockAhead } from '../clock-ahead.ts';
import { type Answer, owner, type TestGateway } from '../gateway.ts';
import { dayMs, iso, linksOf, pageOf } from '../retirements.ts';
import { startTwoReplicas, type TwoReplicas } from '../two-replicas.ts';
import { waitFor } from '../wait-for.ts';
import type { Act } from './acts.ts';
import { CatalogModel, type Retirement, type Seen } from './model.ts';

const names = [0, 1, 2, 3, 4].map((number) => `acme/model-${number}`);
const nameOf = (number: number): string => names[number] ?? 'sandbox-chat';
const note = 'Nobody needs it any more.';

/** Starts the history of a catalog, as two organizations see it through two replicas. */
export async function startHistory(): Promise<History> {
  const clock = new ClockAhead();
  const history = new History(clock, await startTwoReplicas({ clock }));
  await history.begin();
  return history;
}

type Organization = { id: string; key: string };

class History {
  readonly model = new CatalogModel();
  readonly #clock: ClockAhead;
  readonly #replicas: TwoReplicas;
  readonly #organizations: Organization[] = [];
  /** A key of the first organization that has an allowlist. */
  #other!: { id: string; key: string };
  #session = { token: '', endsMs: 0 };

  constructor(clock: ClockAhead, replicas: TwoReplicas) {
    this.#clock = clock;
    this.#replicas = replicas;
  }

  [Symbol.asyncDispose] = (): Promise<void> => this.#replicas[Symbol.asyncDispose]();

  async begin(): Promise<void> {
    const second = await this.#replicas.makeOrganization(await this.#token(), 'Second');
    const profile = await this.#api('GET', '/api/v1/profile', await this.#token());
    this.#organizations.push(
      { id: profile.json.organization.id, key: (await this.#key(owner)).key },
      { id: second.id, key: (await this.#key(second.owner)).key },
    );
    this.#other = await this.#key(owner);
    for (const number of [0, 1, 2]) {
      await this.perform({ kind: 'create', model: number, visibility: number === 0 ? 'public' : 'private' });
      await this.perform({ kind: 'deploy', model: number, upstream: 'sandbox-chat' });
      await this.perform({ kind: 'grant', model: number, organization: 0 });
    }
  }

  /** A key that may make as many requests as the comparisons need. */
  async #key(person: { email: string; password: string }): Promise<{ id: string; key: string }> {
    const [gateway] = this.#replicas.both;
    const key = await gateway.createKey(await gateway.login(person));
    const limits = { requests_per_minute: 10_000_000, tokens_per_minute: 2_000_000_000, concurrent_requests: 1_000 };
    expect((await this.#operator('PUT', `/keys/${key.id}/rate-limits`, limits)).status).toBe(200);
    return key;
  }

  /** Does the same in both; what must be refused must be refused in both. */
  async perform(act: Act): Promise<void> {
    const { model } = this;
    // Before the model reads the time, since this may take some.
    await this.#token();
    model.nowMs = this.#clock.now();
    if (act.kind === 'wait') {
      this.#clock.aheadMs += act.days * dayMs;
      return;
    }
    if (act.kind === 'allow') {
      model.allowlist = act.models.map(nameOf);
      const path = `/api/v1/api-keys/${this.#other.id}`;
      // Unknown names are refused there.
      const known = model.allowlist.filter((name) => model.seen(name, 0).get === 200);
      model.allowlist = known;
      const answer = await this.#api('PATCH', path, await this.#token(), { model_allowlist: known });
      expect(answer.status, answer.text).toBe(200);
      return;
    }
    const name = nameOf(act.model);
    const path = encodeURIComponent(name);
    const compare = (answer: Answer, expected: number) =>
      expect(answer.status, `${JSON.stringify(act)} ${answer.text}`).toBe(expected);
    switch (act.kind) {
      case 'create': {
        const body = { name, visibility: act.visibility, operations: ['chat_completions'] };
        return compare(await this.#operator('POST', '/models', body), model.create(name, act.visibility === 'public'));
      }
      case 'publish': {
        const answer = await this.#operator('PATCH', `/models/${path}`, { visibility: act.visibility });
        return compare(
          answer,
          model.change(name, 200, (one) => {
            one.isPublic = act.visibility === 'public';
          }),
        );
      }
      case 'import': {
        const isPublic = act.visibility === 'public';
        const status = await this.#import(name, isPublic ? Visibility.PUBLIC : Visibility.PRIVATE);
        const expected =
          model.create(name, isPublic) === 201
            ? 200
            : model.change(name, 200, (one) => {
                one.isPublic = isPublic;
              });
        return expect([act, status]).toEqual([act, expected]);
      }
      case 'grant': {
        const body = { model: name, tenant_id: this.#organizations[act.organization]!.id };
        const answer = await this.#operator('POST', '/grants', body);
        return compare(
          answer,
          model.change(name, 201, ({ granted }) => granted.add(act.organization)),
        );
      }
      case 'revoke': {
        const query = `model=${path}&tenant_id=${this.#organizations[act.organization]!.id}`;
        const answer = await this.#operator('DELETE', `/grants?${query}`);
        return compare(
          answer,
          model.change(name, 204, ({ granted }) => granted.delete(act.organization)),
        );
      }
      case 'delete':
        return compare(await this.#operator('DELETE', `/models/${path}`), model.delete(name));
      case 'deploy': {
        const body = { model: name, dialect: 'sandbox', upstream_model: act.upstream };
        const answer = await this.#operator('POST', '/deployments', body);
        const deployments = model.models.get(name)?.deployments;
        compare(answer, deployments === undefined ? 404 : deployments.has(act.upstream) ? 409 : 201);
        if (answer.status === 201) deployments!.set(act.upstream, answer.json.id);
        return;
      }
      case 'undeploy': {
        const deployments = [...(model.models.get(name)?.deployments ?? [])];
        if (deployments.length === 0) return;
        const [upstream, id] = deployments[act.pick % deployments.length]!;
        compare(await this.#operator('DELETE', `/deployments/${id}`), 204);
        model.models.get(name)!.deployments.delete(upstream);
        return;
      }
      case 'announce': {
        const successor = act.successor === null ? null : nameOf(act.successor);
        const sunsetMs = act.days === null ? null : model.nowMs + act.days * dayMs;
        const next = successor === null ? { retirement_note: note } : { replacement_model_name: successor };
        const body = { model: name, sunset_at: sunsetMs === null ? null : iso(sunsetMs), ...next };
        const answer = await this.#operator('POST', '/retirements', body);
        compare(answer, model.announce(name, successor, sunsetMs));
        // By its own clock, a moment later.
        if (answer.status === 201)
          model.models.get(name)!.retirement!.deprecatedMs = Date.parse(answer.json.deprecated_at);
        return;
      }
      case 'date': {
        const sunsetMs = model.nowMs + act.days * dayMs;
        const answer = await this.#operator('PATCH', `/retirements/${path}`, { sunset_at: iso(sunsetMs) });
        return compare(answer, model.date(name, sunsetMs));
      }
      case 'withdraw': {
        const answer = await this.#operator('DELETE', `/retirements/${path}`);
        const expected = model.withdraw(name);
        // It was withdrawn before, which is no mistake.
        if (expected === 404 && model.models.has(name) && answer.status === 204) return;
        return compare(answer, expected);
      }
      default:
        return act satisfies never;
    }
  }

  /** Everything that both organizations see at both replicas matches the model, within a second or two. */
  async compare(): Promise<void> {
    const isSame = async (): Promise<true> => {
      for (const replica of this.#replicas.both) {
        for (const organization of this.#organizations.keys()) await this.#compareAt(replica, organization);
      }
      return true;
    };
    await waitFor(isSame, { description: 'all to be as it should', timeoutMs: 3_000 });
  }

  /** The audit trail alone tells what there is, a moment later. */
  async compareAudit(): Promise<void> {
    const token = await this.#token();
    const { data } = (await this.#operator('GET', '/models?limit=100')).json;
    const isSame = async (): Promise<true> => {
      const told = await replayAudit(this.#replicas, token);
      for (const name of names) {
        const shown = data.find(({ id }: Json) => id === name);
        const model = told.get(`model ${name}`);
        if (model !== undefined) expect(shown, JSON.stringify(model)).toMatchObject(model);
        for (const { id, ...deployment } of shown?.deployments ?? []) {
          expect(deployment, name).toMatchObject({ model: told.get(`deployment ${id}`)?.model });
        }
        const retirement = this.model.models.get(name)?.retirement ?? null;
        const announced = told.get(`retirement ${name}`);
        expect(announced === undefined ? null : retirementOf(announced), name).toEqual(retirement);
      }
      return true;
    };
    await waitFor(isSame, { description: 'the audit trail to be as it should' });
  }

  async #compareAt(replica: TestGateway, organization: number): Promise<void> {
    const seen = await this.#see(replica, organization);
    this.model.nowMs = this.#clock.now();
    expect(seen).toEqual(names.map((name) => this.model.seen(name, organization)));
  }

  /** What an organization sees under each name; an organization without a second kind of key uses its own. */
  async #see(replica: TestGateway, organization: number): Promise<Seen[]> {
    const { key } = this.#organizations[organization]!;
    const get = async (path: string) => (await replica.call('GET', path, key)).json.data as Json[];
    const [listed, retiring] = [await get('/v1/models'), await get('/v1/models/deprecations')];
    const seen: Seen[] = [];
    for (const name of names) {
      const path = encodeURIComponent(name);
      const one = await replica.call('GET', `/v1/models/${path}`, key);
      const body = { model: name, messages: [{ role: 'user', content: 'Hi' }], max_tokens: 1 };
      const chat = await replica.call('POST', '/v1/chat/completions', key, body);
      const other = await replica.call('POST', '/v1/chat/completions', this.#other.key, body);
      const page = await fetch(`${replica.url}/retirements/${path}`);
      const entry = listed.find(({ id }) => id === name);
      const told = [one, chat].map((answer) => retirementIn(name, answer));
      expect(told[0], name).toEqual(told[1]);
      const row = retiring.find(({ id }) => id === name);
      const retirement = row === undefined ? null : retirementOf(row);
      expect(told[0], name).toEqual(retirement && inHeaders(retirement));
      if (entry !== undefined) {
        expect(entry, name).toMatchObject({ is_serviceable: chat.status === 200 });
        expect(entry.deprecated_at === null ? null : retirementOf(entry), name).toEqual(retirement);
      }
      if (chat.status === 410) {
        expect(chat.json.error).toMatchObject({ code: 'model_sunset', message: one.json.error.message });
        expect(chat.json.error.message).toContain(iso(retirement!.sunsetMs!).slice(0, 10));
        expect(chat.json.error.message).toContain(retirement!.successor ?? note);
      }
      seen.push({
        get: one.status,
        chat: chat.status,
        chatByOther: organization === 0 ? other.status : this.model.seen(name, organization).chatByOther,
        isListed: entry !== undefined,
        retirement,
        hasPage: page.status === 200,
      });
      await page.body?.cancel();
    }
    return seen;
  }

  /** Imports as `npm run admin -- models import` does; returns the status that REST would give. */
  async #import(name: string, visibility: Visibility): Promise<number> {
    const client = this.#replicas.both[0].gateway.switchboard.client('admin', ModelsService);
    const operator = create(CallerSchema, { kind: CallerKind.SERVICE, service: 'admin', operator: true });
    const models = [
      create(ImportedModelSchema, {
        name,
        settings: create(ModelSettingsSchema, { visibility, operations: [Operation.CHAT_COMPLETIONS] }),
      }),
    ];
    try {
      await client.importCatalog({ models }, { contextValues: callerContext(operator) });
      return 200;
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      return statusOf(error);
    }
  }

  async #operator(method: string, path: string, body?: object): Promise<Answer> {
    return this.#api(method, `/api/v1/admin${path}`, await this.#token(), body);
  }

  #api(method: string, path: string, token: string, body?: object): Promise<Answer> {
    return this.#replicas.call(method, path, token, body);
  }

  /** An operator's session that has not ended. */
  async #token(): Promise<string> {
    if (this.#clock.now() > this.#session.endsMs) {
      this.#session = { token: await this.#replicas.both[0].login(), endsMs: this.#clock.now() + 20 * 60_000 };
    }
    return this.#session.token;
  }
}

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape; the comparisons are the types.
type Json = any;

const retirementOf = ({ deprecated_at, sunset_at, replacement_model_name, retirement_note }: Json): Retirement => {
  expect([replacement_model_name, retirement_note]).toContain(null);
  expect(retirement_note).toBe(replacement_model_name === null ? note : null);
  return {
    deprecatedMs: Date.parse(deprecated_at),
    sunsetMs: sunset_at === null ? null : Date.parse(sunset_at),
    successor: replacement_model_name,
  };
};

/** RFC 9745 and RFC 8594 have whole seconds. */
const inHeaders = ({ deprecatedMs, sunsetMs, successor }: Retirement) => ({
  deprecation: `@${Math.floor(deprecatedMs / 1_000)}`,
  sunset: sunsetMs === null ? null : new Date(sunsetMs).toUTCString(),
  successor,
});

/** What the headers of an answer say about a model's retirement. */
function retirementIn(name: string, { headers }: Answer) {
  const deprecation = headers.get('deprecation');
  if (deprecation === null) {
    expect([headers.get('sunset'), headers.get('link')]).toEqual([null, null]);
    return null;
  }
  const { deprecation: page, 'successor-version': successor } = linksOf(headers);
  expect(page).toBe(pageOf(name));
  const record = successor === undefined ? null : decodeURIComponent(successor.split('/').at(-1)!);
  return { deprecation, sunset: headers.get('sunset'), successor: record };
}
