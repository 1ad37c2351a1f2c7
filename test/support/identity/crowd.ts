import fc from 'fast-check';
import { expect } from 'vitest';
import { type Answer, owner } from '../gateway.ts';
import { mailedToken, startTwoReplicas, type TwoReplicas } from '../two-replicas.ts';

type Person = {
  id: string;
  email: string;
  /** The one set last is valid; which that is, after simultaneous changes, only a login shows. */
  passwords: string[];
  /** As of the last quiet moment. Someone inactive who tries to sign in has to wait before the next try. */
  isActive: boolean;
};
type Key = { id: string; userId: string /** None has a grace period. */; secrets: string[] };

const acts = [
  'role',
  'role',
  'active',
  'operator',
  'password',
  'refresh',
  'login',
  'key',
  'key',
  'rotate',
  'delete',
  'logout',
];

/** Valid answers to someone who comes too late, or at the same moment as others. */
const orderly = [200, 201, 204, 400, 401, 403, 404, 409, 429];

/** Starts with a founder, who operates the platform, two more owners, an admin and a member, at two replicas of a gateway. */
export async function gatherCrowd(seed: number): Promise<Crowd> {
  const crowd = new Crowd(await startTwoReplicas(), seed);
  await crowd.gather();
  return crowd;
}

/** People who all act at once. */
export class Crowd {
  readonly people: Person[] = [];
  readonly keys: Key[] = [];
  /** The tokens of all sessions that ever existed. */
  readonly tokens: { access: string; refresh: string }[] = [];
  readonly #replicas: TwoReplicas;
  readonly #numbers: readonly number[];
  #drawn = 0;
  #passwords = 0;

  constructor(replicas: TwoReplicas, seed: number) {
    this.#replicas = replicas;
    this.#numbers = fc.sample(fc.nat(1_000_000), { seed, numRuns: 20_000 });
  }

  [Symbol.asyncDispose] = (): Promise<void> => this.#replicas[Symbol.asyncDispose]();

  async gather(): Promise<void> {
    const { json } = await this.call('POST', '/auth/login', '', owner);
    this.people.push({ id: json.user.id, email: owner.email, passwords: [owner.password], isActive: true });
    for (const [index, role] of ['owner', 'owner', 'admin', 'member'].entries()) {
      const email = `person-${index}@example.com`;
      await this.call('POST', '/invitations', json.access_token, { email, role });
      const mails = await this.call('GET', `/admin/mail?search=${email}`, json.access_token);
      const token = mailedToken(mails);
      const accepted = { token, password: owner.password, first_name: 'First', last_name: 'Last' };
      const joined = await this.call('POST', '/auth/accept-invite', '', accepted);
      this.people.push({ id: joined.json.user.id, email, passwords: [owner.password], isActive: true });
    }
  }

  call(method: string, path: string, token?: string, body?: object): Promise<Answer> {
    return this.#replicas.call(method, `/api/v1${path}`, token, body);
  }

  /** Performs this many acts at the same moment, each by someone who can sign in. */
  async actAtOnce(count: number): Promise<void> {
    const sessions: { person: Person; token: string }[] = [];
    for (const person of this.people) {
      const token = await this.signIn(person);
      if (token !== undefined) sessions.push({ person, token });
    }
    await Promise.all(Array.from({ length: count }, () => this.#act(this.#draw(sessions), this.#draw(acts))));
  }

  /** Signs in someone whom nobody changes meanwhile; undefined if they were deactivated. */
  async signIn(person: Person): Promise<string | undefined> {
    if (!person.isActive) return undefined;
    for (const password of person.passwords.toReversed()) {
      const token = await this.#login(person, password);
      if (token === undefined) continue;
      person.passwords = [password];
      return token;
    }
    return undefined;
  }

  async #login({ email }: Person, password: string): Promise<string | undefined> {
    const json = await this.#done(this.call('POST', '/auth/login', '', { email, password }));
    if (json === null) return undefined;
    this.tokens.push({ access: json.access_token, refresh: json.refresh_token });
    return json.access_token;
  }

  async #act({ person, token }: { person: Person; token: string }, kind: string): Promise<void> {
    const who = this.#draw(this.people);
    const key = this.keys.length === 0 ? undefined : this.#draw(this.keys);
    switch (kind) {
      case 'role': {
        const role = this.#draw(['member', 'admin', 'owner']);
        await this.#done(this.call('PATCH', `/members/${who.id}`, token, { role }));
        return;
      }
      case 'active': {
        const is_active = this.#draw([true, false]);
        await this.#done(this.call('PATCH', `/members/${who.id}`, token, { is_active }));
        return;
      }
      case 'operator': {
        const operator = this.#draw([true, false]);
        await this.#done(this.call('PATCH', `/admin/users/${who.id}`, token, { operator }));
        return;
      }
      case 'password': {
        this.#passwords += 1;
        const body = { current_password: person.passwords[0]!, new_password: `Passw0rd-${this.#passwords}` };
        const json = await this.#done(this.call('PUT', '/auth/password', token, body));
        if (json !== null) person.passwords.push(body.new_password);
        return;
      }
      case 'refresh': {
        const { refresh } = this.#draw(this.tokens);
        const json = await this.#done(this.call('POST', '/auth/refresh', '', { refresh_token: refresh }));
        if (json !== null) this.tokens.push({ access: json.access_token, refresh: json.refresh_token });
        return;
      }
      case 'login':
        if (who.isActive) await this.#login(who, who.passwords[0]!);
        return;
      case 'key': {
        const json = await this.#done(this.call('POST', '/api-keys', token, { name: 'A key', key_type: 'management' }));
        if (json !== null) this.keys.push({ id: json.id, userId: person.id, secrets: [json.key] });
        return;
      }
      case 'rotate': {
        const json = key && (await this.#done(this.call('POST', `/api-keys/${key.id}/rotate`, token)));
        if (json) key!.secrets.push(json.key);
        return;
      }
      case 'delete':
        if (key !== undefined) await this.#done(this.call('DELETE', `/api-keys/${key.id}`, token));
        return;
      case 'logout':
        await this.#done(this.call('POST', '/auth/logout', token));
    }
  }

  /** The content of an answer; null for a refusal, which must be one that people can really get. */
  async #done(answer: Promise<Answer>): Promise<Answer['json'] | null> {
    const { status, text, json } = await answer;
    expect(orderly, text).toContain(status);
    return status < 300 ? (json ?? {}) : null;
  }

  #draw<Item>(items: readonly Item[]): Item {
    this.#drawn += 1;
    return items[this.#numbers[this.#drawn % this.#numbers.length]! % items.length]!;
  }
}
