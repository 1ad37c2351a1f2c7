import { decodeJwt } from 'jose';
import { expect } from 'vitest';
import { clockDifferenceMsMax } from '#shared/clock.ts';
import { replayAudit } from '../audit-replay.ts';
import { ClockAhead } from '../clock-ahead.ts';
import { type Answer, owner } from '../gateway.ts';
import { mailedToken, startTwoReplicas, type TwoReplicas } from '../two-replicas.ts';
import { waitFor } from '../wait-for.ts';
import type { Act } from './acts.ts';
import {
  type AddressLink,
  IdentityModel,
  type Invitation,
  type Key,
  type Organization,
  type Outcome,
  type Person,
  type Probe,
  probes,
  type RoleName,
  type Session,
} from './model.ts';

const minuteMs = 60_000;
/** Ended credentials must stay ended; only the latest of them are tried. */
const triedMax = 12;

/** Starts the history of everyone on a platform served by two replicas. */
export async function startHistory(): Promise<History> {
  const clock = new ClockAhead();
  const history = new History(clock, await startTwoReplicas({ clock }));
  await history.begin();
  return history;
}

/** Everyone, both in the product, behind REST, and in the model. */
class History {
  readonly model = new IdentityModel();
  readonly #clock: ClockAhead;
  readonly #replicas: TwoReplicas;
  /** What each credential was last compared with. */
  readonly #compared = new Map<string, string>();
  #looks = 0;
  #made = 0;

  constructor(clock: ClockAhead, replicas: TwoReplicas) {
    this.#clock = clock;
    this.#replicas = replicas;
  }

  [Symbol.asyncDispose] = (): Promise<void> => this.#replicas[Symbol.asyncDispose]();

  async begin(): Promise<void> {
    const { json } = await this.#call('POST', '/auth/login', '', owner);
    const organization: Organization = { id: json.user.tenant_id, isSuspended: false };
    this.model.organizations.push(organization);
    const { id, email } = json.user;
    const founder = { id, email, organization, role: 'owner', isActive: true, operator: true } as const;
    this.model.people.push({
      ...founder,
      password: owner.password,
      formerPassword: 'Never-was-0ne',
      mailedMs: 0,
      askedMs: [],
    });
    this.#opened(this.model.people[0]!, json);
    for (const [address, role] of (['owner', 'admin', 'member'] as const).entries()) {
      await this.perform({ kind: 'invite', by: 1, address, role });
      await this.perform({ kind: 'accept', invitation: address });
      await this.perform({ kind: 'login', who: address + 1, password: 'right' });
      for (const type of ['inference', 'management'] as const) {
        await this.perform({ kind: 'create key', by: address + 1, type, scopes: undefined, minutes: undefined });
      }
    }
  }

  /** Does the same in both. */
  async perform(act: Act): Promise<void> {
    const live = this.model.addressLinks.filter(({ isUsed }) => !isUsed);
    await this.#perform(act);
    // Whatever has voided a link, it is of no use to the very user who asked for it.
    for (const link of live)
      if (link.isUsed && link.person.isActive) await this.#confirm({ by: act.kind.length }, link, link.person);
  }

  async #perform(act: Act): Promise<void> {
    const { model } = this;
    model.nowMs = this.#clock.now();
    switch (act.kind) {
      case 'wait':
        this.#clock.aheadMs += act.minutes * minuteMs;
        return;
      case 'login': {
        const person = chosen(model.people, act.who)!;
        const password = { right: person.password, former: person.formerPassword, wrong: 'Wr0ng-password' }[
          act.password
        ];
        const answer = await this.#call('POST', '/auth/login', '', { email: person.email, password });
        // Someone who failed often has to wait.
        if (answer.status === 429) return;
        this.#compare(act, answer, model.login(person, password));
        if (answer.status === 200) this.#opened(person, answer.json);
        return;
      }
      case 'refresh':
        return this.#refresh(act);
      case 'logout': {
        const session = chosen(model.sessions, act.session)!;
        const isKnown = act.by === 'access token' ? model.isServed(session) : model.nowMs < session.refreshEndsMs;
        const [token, body] =
          act.by === 'access token' ? [session.accessToken] : ['', { refresh_token: session.refreshTokens.at(-1) }];
        this.#compare(act, await this.#call('POST', '/auth/logout', token, body), 204);
        if (isKnown) session.isOver = true;
        return;
      }
      case 'change password': {
        const password = this.#newPassword();
        await this.#as(act, (actor, token) => {
          const current_password = act.isRight ? actor.password : 'Wr0ng-password';
          const body = { current_password, new_password: password };
          return {
            answer: () => this.#call('PUT', '/auth/password', token, body),
            expected: () => (act.isRight ? 204 : 400),
            done: () => model.setPassword(actor, password),
          };
        });
        return;
      }
      case 'reset password': {
        const asking = chosen(model.people, act.who)!;
        const person = model.userOf(asking.email) ?? asking;
        const isMailed = model.forgot(person);
        const asked = await this.#call('POST', '/auth/password/forgot', '', { email: person.email });
        this.#compare(act, asked, 202);
        if (!isMailed) return;
        const token = await this.#mailedTo(person.email);
        this.#clock.aheadMs += act.afterMinutes * minuteMs;
        const body = { token, password: this.#newPassword() };
        const isInTime = act.afterMinutes < 60;
        this.#compare(act, await this.#call('POST', '/auth/password/reset', '', body), isInTime ? 204 : 400);
        if (isInTime) model.setPassword(person, body.password);
        return this.#compare(act, await this.#call('POST', '/auth/password/reset', '', body), 400);
      }
      case 'change member': {
        const person = chosen(model.people, act.who)!;
        const after = { role: (act.role ?? person.role) as RoleName, isActive: act.isActive ?? person.isActive };
        const body = { role: act.role, is_active: act.isActive };
        await this.#as(act, (actor, token) => ({
          answer: () => this.#call('PATCH', `/members/${person.id}`, token, body),
          expected: () => model.changeMember(actor, person, after),
        }));
        return;
      }
      case 'change user': {
        const person = chosen(model.people, act.who)!;
        const email = act.address === undefined ? undefined : address(act.address);
        const after = {
          operator: act.operator ?? person.operator,
          isActive: act.isActive ?? person.isActive,
          email: email ?? person.email,
        };
        const body = { operator: act.operator, is_active: act.isActive, email };
        await this.#as(act, (actor, token) => ({
          answer: () => this.#call('PATCH', `/admin/users/${person.id}`, token, body),
          expected: () => model.changeUser(actor, person, after),
        }));
        return;
      }
      case 'ask for address': {
        const email = address(act.address);
        await this.#as(act, (actor, token) => {
          if (model.mayNearlyAsk(actor, email)) this.#clock.aheadMs += minuteMs / 3;
          model.nowMs = this.#clock.now();
          const current_password = act.isRight ? actor.password : 'Wr0ng-password';
          return {
            answer: () => this.#call('POST', '/auth/email/change', token, { email, current_password }),
            expected: () => (act.isRight ? model.askForAddress(actor, email) : 400),
            done: async () => {
              if (model.userOf(email) === undefined) model.mailed(actor, email, await this.#mailedTo(email));
            },
          };
        });
        return;
      }
      case 'confirm address': {
        const link = chosen(model.addressLinks.slice(-2), act.link);
        if (link === undefined) return;
        // Mostly by whoever may.
        return this.#confirm(act, link, act.link % 5 !== 0 && link.person.isActive ? link.person : undefined);
      }
      case 'invite': {
        const { role } = act as { role: RoleName };
        const email = address(act.address);
        if (model.isNearlyAMinuteOld(email)) return;
        await this.#as(act, (actor, token) => ({
          answer: () => this.#call('POST', '/invitations', token, { email, role }),
          expected: () => model.invite(actor, email, role),
          done: async ({ json }) =>
            model.invited({
              id: json.id,
              token: await this.#mailedTo(email),
              sender: actor,
              organization: actor.organization,
              email,
              role,
            }),
        }));
        return;
      }
      case 'found': {
        const email = address(act.address);
        if (model.isNearlyAMinuteOld(email)) return;
        await this.#as(act, (actor, token) => ({
          answer: () => this.#call('POST', '/admin/organizations', token, { name: 'Another', owner_email: email }),
          expected: () => model.found(actor, email),
          done: async ({ json }) => {
            const organization = { id: json.organization.id, isSuspended: false };
            model.organizations.push(organization);
            const token = await this.#mailedTo(email);
            model.invited({ id: json.invitation.id, token, sender: actor, organization, email, role: 'owner' });
          },
        }));
        return;
      }
      case 'accept':
        return this.#accept(act, chosen(model.invitations, act.invitation));
      case 'withdraw': {
        const invitation = chosen(model.invitations, act.invitation);
        if (invitation === undefined) return;
        await this.#as(act, (actor, token) => ({
          answer: () => this.#call('DELETE', `/invitations/${invitation.id}`, token),
          expected: () => model.withdraw(actor, invitation),
        }));
        return;
      }
      case 'suspend':
      case 'restore': {
        const organization = chosen(model.organizations, act.organization)!;
        await this.#as(act, (actor, token) => ({
          answer: () => this.#call('POST', `/admin/organizations/${organization.id}/${act.kind}`, token),
          expected: () => model.setSuspended(actor, organization, act.kind === 'suspend'),
        }));
        return;
      }
      case 'create key':
        return this.#createKey(act);
      default:
        return this.#changeKey(act);
    }
  }

  /**
   * Every session and key is accepted where it must be, and nowhere else, at either replica: at all probes if that was another answer at the
   * last comparison, or if `isFull`, otherwise at one of them.
   */
  async compareAccess({ isFull = false } = {}): Promise<void> {
    const { model } = this;
    const differences: string[] = [];
    const compare = async (name: string, token: string, expected: (probe: Probe) => Outcome) => {
      const outcomes = probes.map((probe) => this.#expected(() => expected(probe)));
      const isAsBefore = this.#compared.get(token) === outcomes.join();
      this.#compared.set(token, outcomes.join());
      // Once ended, it is ended for all of them; and what no act has changed is looked at in turns.
      const isOver = outcomes.every((outcome) => outcome === 401);
      this.#looks += 1;
      for (const probe of isOver || (isAsBefore && !isFull) ? [chosen(probes, this.#looks)!] : probes) {
        const before = this.#expected(() => expected(probe));
        const answer = await this.#replicas.call(probe.method, probe.path, token, probe.body);
        const after = this.#expected(() => expected(probe));
        const actual = outcome(answer);
        if (actual !== before && actual !== after) {
          differences.push(`${probe.path} by ${name} is answered with ${actual}, not ${after}: ${answer.text}`);
        }
      }
    };
    const describe = ({ email, role, isActive, operator, organization }: Person) =>
      `${email} (${role}${operator ? ', operator' : ''}${isActive ? '' : ', inactive'}${organization.isSuspended ? ', suspended' : ''})`;
    const over = model.sessions.filter((session) => !model.isServed(session)).slice(-triedMax);
    for (const session of model.sessions) {
      if (!model.isServed(session) && !over.includes(session)) continue;
      await compare(`a session of ${describe(session.person)}`, session.accessToken, (probe) =>
        model.ofSession(session, probe),
      );
    }
    for (const key of model.keys.slice(-triedMax)) {
      for (const secret of key.secrets.slice(-2)) {
        const name = `${key.type} key ${key.id} (${key.scopes.join(' ')}) of ${describe(key.person)}`;
        await compare(name, secret.text, (probe) => model.ofKey(key, secret, probe));
      }
    }
    expect(differences, differences.join('\n')).toEqual([]);
  }

  /** Compares what operators are shown about everyone, and the chains of the audit log. */
  async compareLists(): Promise<void> {
    const { model } = this;
    const token = await this.#operator();
    model.nowMs = this.#clock.now();
    const list = async (path: string, limit = 100): Promise<Json[]> =>
      (await this.#call('GET', `/admin/${path}?limit=${limit}`, token)).json.data;
    const shown = (await list('users')).map(({ id, email, role, is_active, operator }) => [
      id,
      email,
      role,
      is_active,
      operator,
    ]);
    expect(shown).toEqual(
      model.people.map(({ id, email, role, isActive, operator }) => [id, email, role, isActive, operator]),
    );
    const keys = (await list('keys')).map(({ id, user_id, status }) => [id, user_id, status]);
    const statusOf = ({ isRevoked, endsMs }: Key) =>
      isRevoked ? 'revoked' : model.nowMs < endsMs ? 'active' : 'expired';
    const there = model.keys.filter(({ isDeleted }) => !isDeleted);
    expect(keys.toSorted()).toEqual(there.map((key) => [key.id, key.person.id, statusOf(key)]).toSorted());
    const organizations = await list('organizations');
    for (const { id, isSuspended } of model.organizations) {
      const { status } = organizations.find((one) => one.id === id);
      expect(status).toBe(isSuspended ? 'suspended' : 'active');
      const chain = await this.#call('GET', `/admin/audit-events/verification?tenant_id=${id}`, token);
      expect(chain.json).toMatchObject({ is_whole: true });
    }
  }

  /** The audit trail alone tells what became of users and keys, a moment later. */
  async compareAudit(): Promise<void> {
    const { model } = this;
    const token = await this.#operator();
    const isSame = async (): Promise<true> => {
      const told = await replayAudit(this.#replicas, token);
      for (const { id, role, isActive, operator, email } of model.people) {
        const shown = { role, is_active: isActive, operator, email };
        expect({ ...shown, ...told.get(`user ${id}`) }, email).toMatchObject(shown);
      }
      for (const key of model.keys) {
        const state = told.get(`api_key ${key.id}`);
        expect(state === undefined).toBe(key.isDeleted);
        if (state === undefined) continue;
        const { expires_at, scopes, revoked_at, key_preview } = state;
        const endsAt = key.endsMs === Number.POSITIVE_INFINITY ? null : new Date(key.endsMs).toISOString();
        expect([expires_at, revoked_at !== undefined]).toEqual([endsAt, key.isRevoked]);
        expect(scopes).toEqual(expect.arrayContaining([...key.scopes]));
        expect(key.secrets.at(-1)!.text.endsWith(key_preview.slice(-4))).toBe(true);
      }
      return true;
    };
    await waitFor(isSame, { description: 'the audit trail to be as it should' });
  }

  /** Every session that must be refreshable can be refreshed, and no other. */
  async compareRefreshes(): Promise<void> {
    for (const session of this.model.sessions.keys()) {
      await this.perform({ kind: 'refresh', session, token: 'current' });
    }
    await this.compareAccess({ isFull: true });
  }

  #expected(outcome: () => Outcome): Outcome {
    this.model.nowMs = this.#clock.now();
    return outcome();
  }

  async #refresh(act: Act & { kind: 'refresh' }): Promise<void> {
    const { model } = this;
    const session = chosen(model.sessions, act.session)!;
    const { refreshTokens } = session;
    const token = { current: refreshTokens.at(-1), previous: refreshTokens.at(-2), first: refreshTokens[0] }[act.token];
    const sinceMs = model.nowMs - session.rotatedMs;
    // Too close to the end of a predecessor's ten seconds to know what is right.
    if (token === undefined || (act.token !== 'current' && sinceMs > 5_000 && sinceMs < 10_000)) return;
    const expected = model.refresh(session, token);
    const answer = await this.#call('POST', '/auth/refresh', '', { refresh_token: token });
    this.#compare(act, answer, expected === 401 ? 401 : 200);
    if (expected === 'repeat') {
      expect(answer.json.refresh_token).toBe(refreshTokens.at(-1));
      if (session.isCurrent) expect(answer.json.access_token).toBe(session.accessToken);
    }
    if (expected === 'rotate')
      Object.assign(session, this.#pair(answer.json), { refreshTokens: [...refreshTokens, answer.json.refresh_token] });
  }

  async #accept(act: Act, invitation: Invitation | undefined): Promise<void> {
    if (invitation === undefined) return;
    const { model } = this;
    const expected = model.accept(invitation);
    const { token, organization, email, role } = invitation;
    const password = this.#newPassword();
    const body = { token, password, first_name: 'First', last_name: 'Last' };
    const answer = await this.#call('POST', '/auth/accept-invite', '', body);
    this.#compare(act, answer, expected);
    if (expected !== 201) return;
    expect(answer.json.organization).toMatchObject({ id: organization.id, role });
    const person = { id: answer.json.user.id, email, organization, role, isActive: true, operator: false };
    model.people.push({ ...person, password, formerPassword: 'Never-was-0ne', mailedMs: 0, askedMs: [] });
  }

  #confirm(act: { by: number }, link: AddressLink, own?: Person): Promise<void> {
    const work = (actor: Person, token: string) => ({
      answer: () => this.#call('POST', '/auth/email/confirm', token, { token: link.token }),
      expected: () => this.model.confirmAddress(actor, link),
    });
    return this.#as({ kind: 'confirm address', link: 0, ...act }, work, own);
  }

  async #createKey(act: Act & { kind: 'create key' }): Promise<void> {
    const { model } = this;
    const type = act.type as Key['type'];
    const endsMs = act.minutes === undefined ? Number.POSITIVE_INFINITY : model.nowMs + act.minutes * minuteMs;
    const expires_at = act.minutes === undefined ? undefined : new Date(endsMs).toISOString();
    const body = { name: 'A key', key_type: type, scopes: act.scopes, expires_at };
    await this.#as(act, (actor, token) => ({
      answer: () => this.#call('POST', '/api-keys', token, body),
      expected: () => model.createKey(actor, type, act.scopes),
      done: ({ json }) => {
        const scopes = act.scopes ?? model.defaultScopes(actor, type);
        const secrets = [{ text: json.key, endsMs: Number.POSITIVE_INFINITY }];
        model.keys.push({
          id: json.id,
          person: actor,
          type,
          scopes,
          secrets,
          endsMs,
          isRevoked: false,
          isDeleted: false,
        });
      },
    }));
  }

  async #changeKey(act: Act & { kind: `${'change' | 'rotate' | 'delete' | 'revoke'} key` }): Promise<void> {
    const { model } = this;
    const key = chosen(model.keys, act.key);
    if (key === undefined) return;
    const path = `/api-keys/${key.id}`;
    // Half of the time by someone who may.
    const own = act.key % 2 === 0 && act.kind !== 'revoke key' ? key.person : undefined;
    await this.#as(
      act,
      (actor, token) => {
        switch (act.kind) {
          case 'change key': {
            const { scopes, minutes } = act;
            const endsMs = minutes == null ? Number.POSITIVE_INFINITY : model.nowMs + minutes * minuteMs;
            const expires_at = minutes == null ? minutes : new Date(endsMs).toISOString();
            return {
              answer: () => this.#call('PATCH', path, token, { name: 'Another name', scopes, expires_at }),
              expected: () => model.changeKey(actor, key, scopes),
              done: () => {
                if (minutes === undefined) return;
                key.endsMs = endsMs;
              },
            };
          }
          case 'rotate key': {
            const endsMs = model.nowMs + act.graceMinutes * minuteMs;
            const body = { grace_period_seconds: act.graceMinutes * 60 };
            return {
              answer: () => this.#call('POST', `${path}/rotate`, token, body),
              expected: () => model.rotateKey(actor, key, act.graceMinutes),
              done: ({ json }) => {
                for (const secret of key.secrets) secret.endsMs = Math.min(secret.endsMs, endsMs);
                key.secrets.push({ text: json.key, endsMs: Number.POSITIVE_INFINITY });
              },
            };
          }
          case 'delete key':
            return {
              answer: () => this.#call('DELETE', path, token),
              expected: () => model.deleteKey(actor, key),
            };
          case 'revoke key':
            return {
              answer: () => this.#call('POST', `/admin/keys/${key.id}/revoke`, token),
              expected: () => model.revokeKey(actor, key),
            };
          default:
            return act satisfies never;
        }
      },
      own,
    );
  }

  /** Does something in a session that is picked, usually one that works, and from `own` if that is given. */
  async #as(
    act: Act & { by: number },
    work: (
      actor: Person,
      token: string,
    ) => { answer: () => Promise<Answer>; expected: () => Outcome; done?: (answer: Answer) => unknown },
    own?: Person,
  ): Promise<void> {
    const { model } = this;
    const isWanted = (session: Session) => model.isServed(session) && (own === undefined || session.person === own);
    if (!model.sessions.some(isWanted)) {
      const who = own === undefined ? act.by : model.people.indexOf(own);
      await this.perform({ kind: 'login', who, password: 'right' });
    }
    const wanted = model.sessions.filter(isWanted);
    const session = chosen(act.by % 12 === 0 || wanted.length === 0 ? model.sessions : wanted, act.by)!;
    const { answer, expected, done } = work(session.person, session.accessToken);
    const outcome = model.isServed(session) ? expected() : 401;
    const answered = await answer();
    this.#compare(act, answered, outcome);
    if (answered.status < 300) await done?.(answered);
    if (answered.status !== 429) return;
    // Someone who is told to wait waits.
    this.#clock.aheadMs += minuteMs;
    await this.perform(act);
  }

  #compare(act: Act, answer: Answer, expected: Outcome): void {
    expect(outcome(answer), `${JSON.stringify(act)} ${answer.text}`).toBe(expected);
  }

  #opened(person: Person, json: Json): void {
    this.model.sessions.push({ person, refreshTokens: [json.refresh_token], isOver: false, ...this.#pair(json) });
  }

  /** What an answer with tokens says about its session. They are valid for as long as service.md says, from now on. */
  #pair(json: Json): Pick<Session, 'accessToken' | 'accessEndsMs' | 'refreshEndsMs' | 'isCurrent' | 'rotatedMs'> {
    const nowMs = this.#clock.now();
    const [access, refresh] = [json.access_token, json.refresh_token].map((token) => decodeJwt(token));
    expect([access!.exp! - access!.iat!, refresh!.exp! - refresh!.iat!]).toEqual([30 * 60, 7 * 24 * 60 * 60]);
    // In whole seconds; after a change of the user this is ahead of any replica's clock, by one more second for each further change.
    const aheadMs = access!.iat! * 1_000 - nowMs;
    expect(aheadMs).toBeGreaterThan(-10_000);
    expect(aheadMs).toBeLessThan(clockDifferenceMsMax + 10_000);
    return {
      accessToken: json.access_token,
      accessEndsMs: access!.exp! * 1_000,
      refreshEndsMs: refresh!.exp! * 1_000,
      isCurrent: true,
      rotatedMs: nowMs,
    };
  }

  /** The token in the latest mail to an address, as an operator finds it in the outbox. */
  async #mailedTo(email: string): Promise<string> {
    return mailedToken(await this.#call('GET', `/admin/mail?search=${email}`, await this.#operator()));
  }

  /** The access token of a new session of some operator. */
  async #operator(): Promise<string> {
    const { email, password } = this.model.people.find((person) => person.operator && person.isActive)!;
    return (await this.#call('POST', '/auth/login', '', { email, password })).json.access_token;
  }

  #newPassword(): string {
    this.#made += 1;
    return `Passw0rd-${this.#made}`;
  }

  #call(method: string, path: string, token: string, body?: object): Promise<Answer> {
    return this.#replicas.call(method, `/api/v1${path}`, token, body);
  }
}

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape; the comparisons are the types.
type Json = any;

const address = (number: number): string => `person-${number}@example.com`;
const outcome = ({ status, json }: Answer): Outcome => (status === 403 ? `403 ${json.error.code}` : status);
const chosen = <Item>(items: readonly Item[], pick: number): Item | undefined => items[pick % items.length];
