import { decodeProtectedHeader } from 'jose';
import { expect, test } from 'vitest';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { SigningKeyStatus } from '#gen/modelgateway/auth/v1/signing_key_pb.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { createLogger } from '#shared/logger.ts';
import { createSecretBox } from '#shared/secret-box.ts';
import { anonymous, ownerEmail, ownerPassword, publicUrl, startTestAuth } from '../../../test/support/auth.ts';
import { localClient } from '../../../test/support/local-client.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { asTableOwner, operatorOf } from '../../../test/support/people.ts';
import { silentLogger as logger } from '../../../test/support/silent-logger.ts';
import { entities } from '../db/entities.ts';
import { refresh } from '../rpc/refresh.ts';
import { openSigningKeys } from './signing-keys.ts';

test('a start with another SERVICE_SECRET says so, one with the same or with both says nothing', async () => {
  await using first = await startTestAuth({ serviceSecrets: ['the first secret, long enough'] });
  const { database } = first;
  const toldAt = async (...serviceSecrets: string[]) => {
    const lines: string[] = [];
    const logger = createLogger({
      level: 'warn',
      name: 'auth',
      destination: { write: (line) => void lines.push(line) },
    });
    const auth = await startTestAuth({ database, serviceSecrets, logger });
    await auth.close();
    return lines.map((line) => JSON.parse(line).msg);
  };
  expect(await toldAt('the first secret, long enough')).toEqual([]);
  expect(await toldAt('another secret, long enough', 'the first secret, long enough')).toEqual([]);
  const another = expect.stringContaining('SERVICE_SECRET is not the one');
  expect(await toldAt('another secret, long enough')).toEqual([another]);
  // The new signing key is sealed with it.
  expect(await toldAt('another secret, long enough')).toEqual([]);
});

test('a replica that has not heard of a rotation looks the new key up for all who come with it at once, for who repeats a refresh, and for who comes right after an invented one', async () => {
  const clock = new ManualClock(Date.parse('2030-01-01T00:00:00Z'));
  const secret = 'a secret that both replicas have';
  await using here = await startTestAuth({ clock, serviceSecrets: [secret] });
  const database = await openServiceDatabase({ service: 'auth', connection: here.database.url, entities, logger });
  const secretBox = createSecretBox([secret], 'model-gateway auth secret box');
  // Nothing tells it of changes.
  const signingKeys = await openSigningKeys({ database, clock, logger, secretBox, jwtPrivateKey: undefined });
  const databaseNow = async () => clock.now();
  const deaf = refresh({ database, clock, databaseNow, signingKeys, publicUrl, feed: {} as never });
  const there = localClient(AuthService, { refresh: deaf }, logger);
  const signIn = async () =>
    (await here.auth.login({ email: ownerEmail, password: ownerPassword }, anonymous())).tokens!.refreshToken;
  const refreshAt = async (auth: Pick<typeof here.auth, 'refresh'>, refreshToken: string) =>
    (await auth.refresh({ refreshToken }, anonymous())).tokens!.refreshToken;

  const spent = await signIn();
  await here.auth.rotateSigningKey({}, operatorOf(here));
  const next = await refreshAt(here.auth, spent);
  expect(await refreshAt(there, spent).catch((error) => error.message)).toBe(next);

  clock.advance(1_000);
  await here.auth.rotateSigningKey({}, operatorOf(here));
  const { kid } = decodeProtectedHeader(await signIn());
  const found = await Promise.all([signingKeys.verifier(kid!), signingKeys.verifier(kid!)]);
  expect(found).toEqual([expect.anything(), expect.anything()]);

  clock.advance(1_000);
  expect(await signingKeys.verifier('invented')).toBeNull();
  await here.auth.rotateSigningKey({}, operatorOf(here));
  const { kid: justMade } = decodeProtectedHeader(await signIn());
  expect(await signingKeys.verifier(justMade!)).not.toBeNull();

  clock.advance(1_000);
  await asTableOwner(
    here,
    `insert into signing_keys (kid, public_key, status, activated_at, expires_at)
     values ('unreadable', '', ${SigningKeyStatus.RETIRING}, $1, $1::timestamptz + interval '1 day')`,
    [new Date(clock.now())],
  );
  const refused = await Promise.allSettled([signingKeys.verifier('unreadable'), signingKeys.verifier('unreadable')]);
  expect(refused.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  await database.close();
});
