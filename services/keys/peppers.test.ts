import { afterEach, beforeEach, expect, test } from 'vitest';
import type { KeyPepper } from '#shared/env/secrets.ts';
import { ErrorReason, type GatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { pepperFingerprint } from '#shared/key-secret.ts';
import { asService } from '#shared/rpc/caller.ts';
import { StartError } from '#shared/start-error.ts';
import { as, digestsOf, reasonOf, sessionOf, startTestKeys, type TestKeys } from '../../test/support/keys.ts';
import { createTestDatabase, rowsOf, type TestDatabase } from '../../test/support/postgres.ts';
import { logCollector } from '../../test/support/rpc-carriers.ts';

const kept: KeyPepper = { version: 1, secret: 'the pepper under which keys were made' };
const another: KeyPepper = { version: 1, secret: 'the pepper that was made in its place' };
const next: KeyPepper = { version: 2, secret: 'the pepper that replaces it some day' };

let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase();
});
afterEach(() => database.drop());

const start = (...peppers: KeyPepper[]) => startTestKeys(database.url, { peppers });
const user = as(sessionOf());
const makeKey = ({ keys }: TestKeys) => keys.createKey({ name: 'under a pepper' }, user);
const isKnown = async ({ keys }: TestKeys, secret: string, ...peppers: KeyPepper[]) =>
  (await keys.authenticate({ digests: digestsOf(secret, peppers) }, asService('edge'))).principal !== undefined;

/** Why a start with these peppers is refused. */
const refusal = async (...peppers: KeyPepper[]): Promise<string> => {
  const failure: Error = await start(...peppers).then(
    async (started) => {
      await started[Symbol.asyncDispose]();
      throw new Error('it started');
    },
    (error) => error,
  );
  expect(failure).toBeInstanceOf(StartError);
  return failure.message;
};

test('Keys does not start with a different pepper from that of its keys, and says which is lost and what to do', async () => {
  {
    await using first = await start(kept);
    await makeKey(first);
  }
  const line = await refusal(another);
  expect(line).toMatch(
    /^KEY_PEPPER differs from the one .* \(version 1\).*: restore it \(a generated one is kept in secrets\/key_pepper in DATA_DIR; where that file was lost, a start writes a new one\)/,
  );
  expect(line).toMatch(/or give those keys up by setting KEY_PEPPER with another version, such as 2:secret\.$/);
  for (const { secret } of [kept, another]) expect(line).not.toContain(secret);
  // In whichever position.
  await refusal(next, another);
  // Two that were swapped.
  await refusal({ ...kept, version: 2 }, { ...next, version: 1 });
  await using restored = await start(kept);
  await makeKey(restored);
});

test('a pepper is replaced step by step, and the keys of both work until the old one is removed', async () => {
  const secrets: string[] = [];
  for (const peppers of [[kept], [kept, next], [next, kept]]) {
    await using keys = await start(...peppers);
    secrets.push((await makeKey(keys)).secret);
    for (const secret of secrets) expect(await isKnown(keys, secret, ...peppers)).toBe(true);
  }
  await refusal(next, another);
  await refusal({ ...another, version: 2 }, kept);
  await using last = await start(next);
  expect(await isKnown(last, secrets[0]!, next)).toBe(false);
  expect(await isKnown(last, secrets[2]!, next)).toBe(true);
});

test('a start says how many secrets need an earlier pepper, and how many are refused without it', async () => {
  const { logger, lines } = logCollector();
  const startLogged = (...peppers: KeyPepper[]) => startTestKeys(database.url, { peppers, logger });
  {
    await using first = await startLogged(kept);
    for (let count = 0; count < 2; count += 1) await makeKey(first);
  }
  for (const peppers of [[next, kept], [next]]) {
    await using later = await startLogged(...peppers);
    await makeKey(later);
  }
  expect(lines.filter(({ secrets }) => secrets !== undefined)).toMatchObject([
    { level: 30, version: 1, secrets: 2, msg: 'secrets of API keys need an earlier pepper until they are rotated' },
    {
      level: 40,
      version: 1,
      secrets: 2,
      msg: 'secrets of API keys are refused, for KEY_PEPPER no longer has their pepper',
    },
  ]);
});

test('a start goes on if the secrets that need an earlier pepper cannot be counted, as when there are too many for the time of a statement', async () => {
  const { logger, lines } = logCollector();
  for (const peppers of [[kept], [next, kept]]) {
    await using former = await start(...peppers);
    await makeKey(former);
  }
  await rowsOf(database.url, 'revoke select on keys.digests from modelgateway_app');
  await using _started = await startTestKeys(database.url, { peppers: [next, kept], logger });
  expect(lines).toContainEqual(
    expect.objectContaining({
      level: 40,
      msg: 'the secrets of API keys that need an earlier pepper could not be counted',
    }),
  );
});

test('a pepper may be changed while no key uses it, or once none does any more', async () => {
  {
    await using first = await start(kept);
    const { key } = await makeKey(first);
    await first.keys.deleteKey({ keyId: key!.id }, user);
  }
  await using second = await start(another);
  const { secret } = await makeKey(second);
  expect(await isKnown(second, secret, another)).toBe(true);
  await refusal(kept);
});

test('keys made by an earlier version are attributed to the pepper with which the database is first started, even by several at once', async () => {
  {
    await using former = await start(kept);
    await makeKey(former);
  }
  await rowsOf(database.url, 'delete from keys.peppers');
  const replicas = await Promise.all(Array.from({ length: 4 }, () => start(kept)));
  for (const replica of replicas) await replica[Symbol.asyncDispose]();
  await refusal(another);
});

test('a pepper wrongly attributed to keys of an earlier version can be forgotten as services/README.md says', async () => {
  let secret: string;
  {
    await using former = await start(kept);
    ({ secret } = await makeKey(former));
  }
  await rowsOf(database.url, 'delete from keys.peppers');
  await (await start(another))[Symbol.asyncDispose]();
  await refusal(kept);
  await rowsOf(database.url, 'delete from keys.peppers');
  await using restored = await start(kept);
  expect(await isKnown(restored, secret, kept)).toBe(true);
});

test('of replicas that start together without keys, all create some, except one with a different pepper', async () => {
  const replicas = await Promise.all([start(kept), start(kept), start(kept)]);
  await using astray = await start(another);
  try {
    await Promise.all(replicas.map(makeKey));
    expect(await reasonOf(makeKey(astray))).toBe(ErrorReason.INTERNAL);
  } finally {
    for (const replica of replicas) await replica[Symbol.asyncDispose]();
  }
  await refusal(another);
  await using again = await start(kept);
  await makeKey(again);
});

test('an edge whose peppers would refuse keys is told no changes, and one has them all while a pepper is replaced', async () => {
  const edge = asService('edge');
  const following = async (theirs: readonly KeyPepper[], ours: readonly KeyPepper[]): Promise<string> => {
    await using keys = await start(...ours);
    const peppers = theirs.map((pepper) => ({ version: pepper.version, fingerprint: pepperFingerprint(pepper) }));
    try {
      for await (const _event of keys.keys.watchKeys({ edgeId: uuidv7(), peppers }, edge)) return 'followed';
      return 'ended';
    } catch (error) {
      return (error as GatewayError).message;
    }
  };
  for (const [theirs, ours] of [
    [[kept], [kept]],
    [[kept], [kept, next]],
    [[kept, next], [kept]],
    [
      [kept, next],
      [next, kept],
    ],
    [
      [next, kept],
      [kept, next],
    ],
    [[next, kept], [next]],
    // An edge of an earlier version.
    [[], [kept]],
  ]) {
    expect(await following(theirs!, ours!), JSON.stringify([theirs, ours])).toBe('followed');
  }
  expect(await following([another], [kept])).toBe(
    "This edge's KEY_PEPPER differs from that of Keys (version 1): give both the same.",
  );
  expect(await following([next, another], [next, kept])).toContain('differs from that of Keys (version 1)');
  expect(await following([kept], [next, kept])).toBe(
    "This edge's KEY_PEPPER lacks the version that Keys uses (version 2): give both the same.",
  );
});
