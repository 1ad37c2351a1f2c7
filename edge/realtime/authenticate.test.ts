import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { FastifyRequest } from 'fastify';
import { expect, test } from 'vitest';
import type { Clock } from '#shared/clock.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { as, sessionOf, startKeysBench, testPeppers } from '../../test/support/keys.ts';
import type { RouteDeps } from '../app.ts';
import { digestsOf } from '../snapshots/keys/key-loads.ts';
import { realtimeAuthentication } from './authenticate.ts';
import { ClientSecrets } from './client-secret.ts';

/** Opens a session by a client secret of a key. */
function opening(keySecret: string, keys: RouteDeps['keys'], { clock, startMs }: { clock: Clock; startMs: number }) {
  const secrets = new ClientSecrets(['a service secret']);
  const credentials = {} as RouteDeps['credentials'];
  const deps = { credentials, keys, clock, publicUrl: 'https://gateway.example' };
  const authenticate = realtimeAuthentication(deps, secrets);
  const holder = { kind: 'key', digests: digestsOf(keySecret, testPeppers).names } as const;
  const sealed = secrets.seal({ expiresAtMs: startMs + 60_000, holder, sessionJson: '{}' });
  const authorization = `Bearer ${sealed}`;
  const raw = { headers: { authorization }, rawHeaders: ['authorization', authorization] };
  return async () => authenticate({ raw } as unknown as FastifyRequest);
}

test('while Keys does not answer, a client secret is refused as a key is: try again', async () => {
  await using bench = await startKeysBench();
  const { secret } = await bench.keys.createKey({ name: 'asked' }, as(sessionOf()));
  const authenticate = () => Promise.reject(gatewayError(ErrorReason.DEADLINE_EXCEEDED, 'no answer'));
  const open = opening(secret, { ...bench.keys, authenticate }, bench);
  await expect(open()).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
});

test('a client secret opens no session from the moment its key expires', async () => {
  await using bench = await startKeysBench();
  const { keys, clock, startMs } = bench;
  const expiresAt = timestampFromMs(startMs + 5_000);
  const { key, secret } = await keys.createKey({ name: 'short', expiresAt }, as(sessionOf()));
  const open = opening(secret, keys, bench);
  clock.set(startMs + 4_999);
  expect(await open()).toMatchObject({ kind: 'key', keyId: key!.id });
  clock.set(startMs + 5_000);
  await expect(open()).rejects.toMatchObject({ reason: ErrorReason.INVALID_API_KEY });
});
