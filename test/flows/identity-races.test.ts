import { decodeJwt } from 'jose';
import { expect, test } from 'vitest';
import { type Crowd, gatherCrowd } from '../support/identity/crowd.ts';

/** This many run before every merge; `IDENTITY_ROUNDS=500` takes a night. */
const rounds = Number(process.env.IDENTITY_ROUNDS ?? 6);
/** Printed by a failed run, to repeat its random choices. */
const seed = Number(process.env.IDENTITY_SEED ?? Date.now() % 1_000_000);

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape; the assertions are the types.
type Json = any;

test(
  'whatever people do at the same moment, there is an owner and an operator, nobody has too many keys, and no role, secret or session outlives its end',
  async ({ annotate }) => {
    await annotate(`IDENTITY_SEED=${seed}`);
    await using crowd = await gatherCrowd(seed);
    for (let round = 0; round < rounds; round += 1) {
      await crowd.actAtOnce(14);
      const operator = await anOperator(crowd);
      const users = await all(crowd, '/admin/users', operator);
      for (const person of crowd.people) person.isActive = users.find(({ id }) => id === person.id).is_active;
      expect(users.some(({ role, is_active }) => role === 'owner' && is_active)).toBe(true);
      const keys = await all(crowd, '/admin/keys', operator);
      for (const { id } of users) expect(keys.filter(({ user_id }) => user_id === id).length).toBeLessThanOrEqual(10);
      await expectSessions(crowd, users);
      await expectKeys(crowd, users, keys);
    }
    const { data } = (await crowd.call('GET', '/admin/organizations', await anOperator(crowd))).json;
    const chain = `/admin/audit-events/verification?tenant_id=${data[0].id}`;
    expect((await crowd.call('GET', chain, await anOperator(crowd))).json).toMatchObject({ is_whole: true });
  },
  600_000 + rounds * 10_000,
);

/** Expects each access token to be refused or to state the truth about its user. Checked twice, at either replica. */
async function expectSessions(crowd: Crowd, users: readonly Json[]): Promise<void> {
  for (const { access } of crowd.tokens.slice(-60)) {
    const { sub, role, operator = false } = decodeJwt<Json>(access);
    for (let look = 0; look < 2; look += 1) {
      const { status, json } = await crowd.call('GET', '/profile', access);
      if (status === 401) continue;
      expect([status, json]).toMatchObject([200, { id: sub, role }]);
      expect(users.find(({ id }) => id === sub)).toMatchObject({ role, operator, is_active: true });
    }
  }
}

/** Of the secrets of an existing key with an active user, one works: of those created at the same moment, the last. */
async function expectKeys(crowd: Crowd, users: readonly Json[], keys: readonly Json[]): Promise<void> {
  for (const { id, userId, secrets } of crowd.keys.slice(-20)) {
    const { is_active, role } = users.find((user) => user.id === userId);
    const isServed = is_active && keys.some((key) => key.id === id);
    for (let look = 0; look < 2; look += 1) {
      const answers: number[] = [];
      for (const secret of secrets) answers.push((await crowd.call('GET', '/billing/wallet', secret)).status);
      const served = answers.filter((status) => status !== 401);
      expect([id, served]).toEqual([id, isServed ? [role === 'member' ? 403 : 200] : []]);
    }
  }
}

/** The access token of an operator: there always is one. */
async function anOperator(crowd: Crowd): Promise<string> {
  const tokens: string[] = [];
  for (const person of crowd.people) tokens.push((await crowd.signIn(person)) ?? '');
  const token = tokens.find((one) => one !== '' && decodeJwt(one).operator === true);
  expect(token).toBeDefined();
  return token!;
}

/** A whole list, page by page. */
async function all(crowd: Crowd, path: string, token: string): Promise<Json[]> {
  const rows: Json[] = [];
  for (let page = 1; ; page += 1) {
    const { data, pagination } = (await crowd.call('GET', `${path}?limit=100&page=${page}`, token)).json;
    rows.push(...data);
    if (!pagination.has_next) return rows;
  }
}
