import { randomBytes, randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { makeKeySecret } from '#shared/key-secret.ts';
import { owner, startTestGateway, type TestGateway } from '../support/gateway.ts';
import { hostileTexts, placesOfText } from '../support/hostile-texts.ts';

let gateway: TestGateway;
let session: string;
/** What Postgres was sent: the statement without its values, and whether anything in it came from the client. */
let seen: { shape: string; carriesText: boolean }[] = [];
/** What the client is sending. */
let sentText = '';

beforeAll(async () => {
  const { query } = pg.Client.prototype;
  vi.spyOn(pg.Client.prototype, 'query').mockImplementation(function (this: pg.Client, ...sent: unknown[]) {
    const [statement, values] = sent as [string | pg.QueryConfig, unknown[] | undefined];
    const { text, values: itsValues } = typeof statement === 'string' ? { text: statement, values } : statement;
    const all = [text.replaceAll("''", "'").replaceAll('\\\\', '\\'), ...(values ?? itsValues ?? [])];
    seen.push({ shape: withoutValues(text), carriesText: all.some((part) => String(part).includes(sentText)) });
    return query.apply(this, sent as never) as never;
  });
  // What a worker asks of the database on its own schedule is beside the point.
  gateway = await startTestGateway({ worker: false });
  session = await gateway.login();
});
afterAll(async () => {
  vi.restoreAllMocks();
  await gateway?.[Symbol.asyncDispose]();
});

/** Text that is valid at the places that take it; all of them accept any word and any id. */
const meantTexts: Readonly<Record<string, readonly string[]>> = {
  'a time zone': ['UTC', 'Europe/Oslo'],
  'a granularity': ['hourly', 'daily', 'weekly', 'monthly'],
  'an unknown parameter': ['unknown', 'search'],
  'an order of jobs': ['asc', 'desc'],
  'an address': [owner.email, 'nobody@example.com'],
};

/** A statement as Postgres reads it (section 4.1 of its manual), with each constant, and each list of them, replaced by one mark. */
function withoutValues(statement: string): string {
  return statement
    .replace(/"[^"]*"|\bE'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'/gis, (token) => (token.startsWith('"') ? token : '?'))
    .replace(/\$\d+|(?<![\w"])\d+(?:\.\d+)?\b|\b(?:null|true|false)\b/gi, '?')
    .replace(/\?(?:\s*,\s*\?)+/g, '?')
    .replace(/\s+/g, ' ')
    .replaceAll('( ?', '(?')
    .replace(/\(\?\)(?:\s*,\s*\(\?\))+/g, '(?)');
}

async function sendAll(textsOf: (place: string) => readonly string[], bearers: readonly string[]): Promise<void> {
  seen = [];
  for (const [place, request] of Object.entries(placesOfText)) {
    for (const text of textsOf(place)) {
      sentText = text;
      const [method, path, body] = request(text);
      await gateway.call(method, path, session, body);
    }
  }
  for (const bearer of bearers) {
    sentText = bearer;
    await gateway.call('GET', '/v1/models', bearer);
  }
}

test('hostile text reaches Postgres only as a value of the same statements that other text reaches', async () => {
  const bearers = [makeKeySecret(randomBytes(32)), 'sk-proj-mistyped', 'a.b.c'];
  await sendAll((place) => [...(meantTexts[place] ?? []), 'word', randomUUID()], bearers);
  const known = new Set(seen.map(({ shape }) => shape));
  expect(known.size).toBeGreaterThan(20);
  const asBearer = hostileTexts.filter((text) => /^[\x20-\x7e]*$/.test(text)).map((text) => text.slice(0, 4_000));
  await sendAll(() => hostileTexts, asBearer);
  // What the gateway asks from time to time on its own carries nobody's text.
  const reached = new Set(seen.flatMap(({ shape, carriesText }) => (carriesText ? [shape] : [])));
  expect(reached.size).toBeGreaterThan(5);
  expect([...reached].filter((shape) => !known.has(shape))).toEqual([]);
});

test('a statement that contains a value is noticed', () => {
  const plain = (value: string) =>
    withoutValues(`select * from "keys"."keys" where name = '${value}' and id in ($1, $2)`);
  expect(plain('other')).toBe(plain("it''s \\"));
  expect(plain("' or '1'='1")).not.toBe(plain('other'));
  expect(plain("'; drop table keys.keys; --")).not.toBe(plain('other'));
});

test('a key with a wrong checksum costs no statement', async () => {
  const lookUpsOf = async (keys: readonly string[], statuses: readonly number[]): Promise<string[]> => {
    seen = [];
    for (const key of keys) expect(statuses).toContain((await gateway.call('GET', '/v1/models', key)).status);
    return seen.flatMap(({ shape }) => (/\bdigests\b/.test(shape) ? [shape] : []));
  };
  const unknown = makeKeySecret(randomBytes(32));
  // On a busy machine it may not be answered in time.
  expect(await lookUpsOf([unknown], [401, 503])).not.toEqual([]);
  const mistyped = Array.from({ length: 50 }, (_, n) => `${unknown.slice(0, 20)}${n + 10}${unknown.slice(22)}`);
  const others = mistyped.filter((key) => key !== unknown);
  expect(await lookUpsOf(others, [401])).toEqual([]);
});
