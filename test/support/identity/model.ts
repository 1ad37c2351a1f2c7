import { keyTypeOfScope, type Scope, scopeBit, scopeBits } from '#shared/scopes.ts';

export type RoleName = 'member' | 'admin' | 'owner';
export type Organization = { id: string; isSuspended: boolean };
export type Person = {
  id: string;
  email: string;
  organization: Organization;
  role: RoleName;
  isActive: boolean;
  operator: boolean;
  password: string;
  formerPassword: string;
  /** When a link for setting a new password was last mailed. */
  mailedMs: number;
  /** When they asked for other addresses. */
  askedMs: number[];
};
/** A mailed link that confirms a new address. */
export type AddressLink = { person: Person; email: string; token: string; endsMs: number; isUsed: boolean };
export type Session = {
  person: Person;
  accessToken: string;
  accessEndsMs: number;
  /** Nothing about its user has changed since the access token was issued. */
  isCurrent: boolean;
  /** Oldest first; the last is the one to spend. */
  refreshTokens: string[];
  refreshEndsMs: number;
  rotatedMs: number;
  isOver: boolean;
};
export type Key = {
  id: string;
  person: Person;
  type: 'inference' | 'management';
  scopes: readonly string[];
  /** Oldest first; an earlier one ends with its grace period. */
  secrets: { text: string; endsMs: number }[];
  endsMs: number;
  isRevoked: boolean;
  isDeleted: boolean;
};
export type Invitation = {
  id: string;
  token: string;
  sender: Person;
  organization: Organization;
  email: string;
  role: RoleName;
  sentMs: number;
  endsMs: number;
  isPending: boolean;
  isAccepted: boolean;
};

/** An operation and who may use it. */
export type Probe = {
  method: 'GET' | 'POST';
  path: string;
  body?: object;
  /** If missing, keys may not use it. */
  scope?: Scope;
  role: RoleName;
  isForOperators?: boolean;
  startsWork?: boolean;
};

export const probes: readonly Probe[] = [
  { method: 'GET', path: '/v1/models', scope: 'models:list', role: 'member' },
  {
    method: 'POST',
    path: '/v1/embeddings',
    body: { model: 'sandbox-embed', input: 'x' },
    scope: 'inference:embeddings',
    role: 'member',
    startsWork: true,
  },
  { method: 'GET', path: '/api/v1/usage/current', scope: 'usage:read_current', role: 'member' },
  { method: 'GET', path: '/api/v1/billing/wallet', scope: 'billing:read_current', role: 'admin' },
  { method: 'GET', path: '/api/v1/usage/tenant-breakdown', scope: 'usage:read_breakdown', role: 'admin' },
  { method: 'GET', path: '/api/v1/members', role: 'admin' },
  { method: 'GET', path: '/api/v1/admin/organizations', role: 'member', isForOperators: true },
];

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
const roles: readonly RoleName[] = ['member', 'admin', 'owner'];
const atLeast = (person: Person, role: RoleName): boolean => roles.indexOf(person.role) >= roles.indexOf(role);
const mayInvite = (person: Person, role: RoleName): boolean => atLeast(person, role === 'owner' ? role : 'admin');

/** What answers are compared by: the status, and for a 403 the code. */
export type Outcome = number | `403 ${string}`;
const noRole = '403 insufficient_role';

/** Who is accepted where, according to service.md and decisions.md, without caches, replicas or a database. */
export class IdentityModel {
  nowMs = 0;
  readonly organizations: Organization[] = [];
  readonly people: Person[] = [];
  readonly sessions: Session[] = [];
  readonly keys: Key[] = [];
  readonly invitations: Invitation[] = [];
  readonly addressLinks: AddressLink[] = [];
  readonly #askedMsByAddress = new Map<string, number[]>();

  isServed({ person, isOver, isCurrent, accessEndsMs }: Session): boolean {
    return !isOver && isCurrent && person.isActive && this.nowMs < accessEndsMs;
  }

  ofSession(session: Session, probe: Probe): Outcome {
    if (!this.isServed(session)) return 401;
    const { person } = session;
    if (probe.isForOperators && !person.operator) return noRole;
    if (probe.startsWork && person.organization.isSuspended) return '403 tenant_suspended';
    return atLeast(person, probe.role) ? 200 : noRole;
  }

  ofKey(key: Key, secret: Key['secrets'][number], probe: Probe): Outcome {
    const { person } = key;
    const isOver = key.isDeleted || key.isRevoked || this.nowMs >= Math.min(key.endsMs, secret.endsMs);
    if (isOver || !person.isActive) return 401;
    if (probe.scope === undefined || keyTypeOfScope(probe.scope) !== key.type) return '403 endpoint_not_allowed';
    if ((scopeBits(key.scopes) & scopeBit(probe.scope)) === 0) return '403 missing_scope';
    if (probe.startsWork && person.organization.isSuspended) return '403 tenant_suspended';
    return atLeast(person, probe.role) ? 200 : noRole;
  }

  login(person: Person, password: string): 200 | 401 {
    return person.isActive && password === person.password ? 200 : 401;
  }

  /** `repeat`: the same pair of tokens is returned again. */
  refresh(session: Session, token: string): 'rotate' | 'repeat' | 401 {
    const place = session.refreshTokens.indexOf(token);
    if (session.isOver || !session.person.isActive || this.nowMs >= session.refreshEndsMs) return 401;
    if (place === session.refreshTokens.length - 1) return 'rotate';
    if (place === session.refreshTokens.length - 2 && this.nowMs - session.rotatedMs < 10_000) return 'repeat';
    session.isOver = true;
    return 401;
  }

  changeMember(actor: Person, person: Person, after: Pick<Person, 'role' | 'isActive'>): Outcome {
    if (!atLeast(actor, 'admin')) return noRole;
    if (person.organization !== actor.organization) return 404;
    if (actor.role !== 'owner' && (person.role === 'owner' || after.role === 'owner')) return noRole;
    const { organization } = person;
    const isOwner = (one: Pick<Person, 'role' | 'isActive'>) => one.role === 'owner' && one.isActive;
    const others = this.people.filter((one) => one !== person && one.organization === organization && isOwner(one));
    if (isOwner(person) && !isOwner(after) && others.length === 0) return 409;
    if (!after.isActive && this.#isLastOperator(person)) return 409;
    if (this.#isTaken(person, after)) return 409;
    this.#change(person, after);
    return 200;
  }

  changeUser(actor: Person, person: Person, after: Pick<Person, 'operator' | 'isActive' | 'email'>): Outcome {
    if (!actor.operator) return noRole;
    if (!(after.isActive && after.operator) && this.#isLastOperator(person)) return 409;
    if (this.#isTaken(person, after)) return 409;
    if (after.email !== person.email) this.#voidAddressLinks(person);
    this.#change(person, after);
    return 200;
  }

  /** Whether it is too close to the end of a wait to know who may ask again. */
  mayNearlyAsk(person: Person, email: string): boolean {
    const waitsMs = [this.#waitMs(person.askedMs), this.#waitMs(this.#askedMs(person, email).slice(-1))];
    return waitsMs.some((waitMs) => waitMs > -10_000 && waitMs < 10_000);
  }

  /** Once a minute, and five times an hour; all of an organization for one address once a minute. */
  askForAddress(person: Person, email: string): Outcome {
    if (person.email === email) return 400;
    const askedMs = this.#askedMs(person, email);
    if (this.#waitMs(person.askedMs) > 0 || this.#waitMs(askedMs.slice(-1)) > 0) return 429;
    person.askedMs.push(this.nowMs);
    askedMs.push(this.nowMs);
    this.#voidAddressLinks(person);
    return 202;
  }

  /** When anybody in a person's organization asked for an address. */
  #askedMs({ organization }: Person, email: string): number[] {
    const asked = this.#askedMsByAddress.get(`${organization.id} ${email}`) ?? [];
    this.#askedMsByAddress.set(`${organization.id} ${email}`, asked);
    return asked;
  }

  #waitMs(askedMs: readonly number[]): number {
    const [latest = -hourMs, fifth = -hourMs] = [askedMs.at(-1), askedMs.at(-5)];
    return Math.max(latest + minuteMs, fifth + hourMs) - this.nowMs;
  }

  mailed(person: Person, email: string, token: string): void {
    this.addressLinks.push({ person, email, token, endsMs: this.nowMs + hourMs, isUsed: false });
  }

  /** Sessions and keys go on. */
  confirmAddress(actor: Person, link: AddressLink): Outcome {
    const { person, email } = link;
    if (actor !== person || link.isUsed || this.nowMs >= link.endsMs) return 400;
    if (this.userOf(email) !== undefined) return 409;
    this.#voidAddressLinks(person);
    person.email = email;
    this.#withdrawUnfit(person);
    return 200;
  }

  #voidAddressLinks(person: Person): void {
    for (const link of this.addressLinks) if (link.person === person) link.isUsed = true;
  }

  #isLastOperator(person: Person): boolean {
    const isOperator = (one: Person) => one.operator && one.isActive;
    return isOperator(person) && this.people.filter(isOperator).length === 1;
  }

  #change(person: Person, after: Partial<Person>): void {
    const isChange = Object.entries(after).some(([name, value]) => person[name as keyof Person] !== value);
    Object.assign(person, after);
    if (!isChange) return;
    this.#withdrawUnfit(person);
    for (const session of this.#sessionsOf(person)) session.isCurrent = false;
    if (person.isActive) return;
    this.#endSessions(person);
    this.#voidAddressLinks(person);
  }

  /** Withdraws the invitations which they may not send any more, and those of their organization to their address. */
  #withdrawUnfit(person: Person): void {
    for (const invitation of this.invitations) {
      const isOwn = invitation.organization === person.organization;
      const maySend = person.isActive && (person.operator || (isOwn && mayInvite(person, invitation.role)));
      const isLost = invitation.sender === person && !maySend;
      if (isLost || (isOwn && invitation.email === person.email)) invitation.isPending = false;
    }
  }

  setPassword(person: Person, password: string): void {
    person.formerPassword = person.password;
    person.password = password;
    this.#endSessions(person);
    this.#voidAddressLinks(person);
  }

  #endSessions(person: Person): void {
    for (const session of this.#sessionsOf(person)) session.isOver = true;
  }

  #sessionsOf(person: Person): Session[] {
    return this.sessions.filter((session) => session.person === person);
  }

  /** Whether a link is mailed: to someone active, once a minute. */
  forgot(person: Person): boolean {
    if (!person.isActive || this.nowMs - person.mailedMs < minuteMs) return false;
    person.mailedMs = this.nowMs;
    return true;
  }

  invite(actor: Person, email: string, role: RoleName): Outcome {
    if (!mayInvite(actor, role)) return noRole;
    if (this.people.some((one) => one.email === email && one.organization === actor.organization)) return 409;
    const own = this.invitations.filter(({ organization }) => organization === actor.organization);
    return this.#isJustSent(own, email) ? 429 : 201;
  }

  found(actor: Person, email: string): Outcome {
    if (!actor.operator) return noRole;
    if (this.userOf(email) !== undefined) return 409;
    const pending = this.invitations.filter(({ isPending }) => isPending);
    return this.#isJustSent(pending, email) ? 429 : 201;
  }

  #isJustSent(invitations: readonly Invitation[], email: string): boolean {
    return invitations.some((sent) => sent.email === email && this.nowMs - sent.sentMs < minuteMs);
  }

  /** Whether an invitation to an address is so close to a minute old that only its sender can tell. */
  isNearlyAMinuteOld(email: string): boolean {
    return this.invitations.some(
      (sent) => sent.email === email && Math.abs(this.nowMs - sent.sentMs - minuteMs) < 10_000,
    );
  }

  invited(invitation: Omit<Invitation, 'sentMs' | 'endsMs' | 'isPending' | 'isAccepted'>): void {
    for (const earlier of this.invitations) {
      if (earlier.email === invitation.email && earlier.organization === invitation.organization)
        earlier.isPending = false;
    }
    const terms = { sentMs: this.nowMs, endsMs: this.nowMs + 7 * dayMs, isPending: true, isAccepted: false };
    this.invitations.push({ ...invitation, ...terms });
  }

  accept(invitation: Invitation): Outcome {
    if (!invitation.isPending || this.nowMs >= invitation.endsMs) return 400;
    if (this.userOf(invitation.email) !== undefined) return 409;
    invitation.isPending = false;
    invitation.isAccepted = true;
    return 201;
  }

  withdraw(actor: Person, invitation: Invitation): Outcome {
    if (!atLeast(actor, 'admin')) return noRole;
    if (invitation.organization !== actor.organization) return 404;
    if (invitation.isAccepted) return 409;
    invitation.isPending = false;
    return 204;
  }

  setSuspended(actor: Person, organization: Organization, isSuspended: boolean): Outcome {
    if (!actor.operator) return noRole;
    organization.isSuspended = isSuspended;
    return 200;
  }

  createKey(actor: Person, type: Key['type'], scopes: readonly string[] | undefined): Outcome {
    if (!areFor(type, scopes)) return 400;
    const own = this.keys.filter((key) => key.person === actor && !key.isDeleted);
    return own.length < 10 ? 201 : '403 key_quota_exceeded';
  }

  /** Only those scopes that probes use. */
  defaultScopes(actor: Person, type: Key['type']): readonly string[] {
    if (type === 'inference') return ['models:list', 'inference:embeddings'];
    const everybody = ['usage:read_current', 'billing:read_current'];
    return atLeast(actor, 'admin') ? [...everybody, 'usage:read_breakdown'] : everybody;
  }

  changeKey(actor: Person, key: Key, scopes?: readonly string[]): Outcome {
    if (key.person !== actor || key.isDeleted) return 404;
    if (key.isRevoked) return 409;
    if (!areFor(key.type, scopes)) return 400;
    key.scopes = scopes ?? key.scopes;
    return 200;
  }

  /** At most five secrets are valid at a time, and a grace period ends none of them at once. */
  rotateKey(actor: Person, key: Key, graceMinutes: number): Outcome {
    const outcome = this.changeKey(actor, key);
    if (outcome !== 200 || graceMinutes === 0) return outcome;
    return key.secrets.filter(({ endsMs }) => this.nowMs < endsMs).length < 5 ? 200 : 409;
  }

  deleteKey(actor: Person, key: Key): Outcome {
    if (key.person !== actor || key.isDeleted) return 404;
    key.isDeleted = true;
    return 204;
  }

  revokeKey(actor: Person, key: Key): Outcome {
    if (!actor.operator) return noRole;
    if (key.isDeleted) return 404;
    key.isRevoked = true;
    return 200;
  }

  /** The active user with an address. */
  userOf(email: string): Person | undefined {
    return this.people.find((person) => person.email === email && person.isActive);
  }

  /** Whether someone cannot be active, or have an address, because another active user has it. */
  #isTaken(person: Person, after: Pick<Person, 'isActive'> & Partial<Person>): boolean {
    const holder = this.userOf(after.email ?? person.email);
    return after.isActive && holder !== undefined && holder !== person;
  }
}

/** Whether a key of a type may have all of these scopes. */
const areFor = (type: Key['type'], scopes: readonly string[] | undefined): boolean =>
  scopes === undefined || scopes.every((scope) => /^(billing|usage):/.test(scope) === (type === 'management'));
