import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { FastifyRequest } from 'fastify';
import { expect, test } from 'vitest';
import { ErrorReason } from '#shared/errors.ts';
import { as, sessionOf, startKeysBench, testPeppers } from '../../test/support/keys.ts';
import type { RouteDeps } from '../app.ts';
import { digestsOf } from '../snapshots/keys/key-loads.ts';
import { realtimeAuthentication } from './authenticate.ts';
import { ClientSecrets } from './client-secret.ts';

test('a client secret opens no session from the moment its key expires', async () => {
  await using bench = await startKeysBench();
  const { keys, clock, startMs } = bench;
  const expiresAt = timestampFromMs(startMs + 5_000);
  const { key, secret } = await keys.createKey({ name: 'short', expiresAt }, as(sessionOf()));
  const secrets = new ClientSecrets(['a service secret']);
  const credentials = {} as RouteDeps['credentials'];
  const authenticate = realtimeAuthentication(
    { credentials, keys, clock, publicUrl: 'https://gateway.example' },
    secrets,
  );
  const holder = { kind: 'key', digests: digestsOf(secret, testPeppers).names } as const;
  const sealed = secrets.seal({ expiresAtMs: startMs + 60_000, holder, sessionJson: '{}' });
  const authorization = `Bearer ${sealed}`;
  const raw = { headers: { authorization }, rawHeaders: ['authorization', authorization] };
  const open = async () => authenticate({ raw } as unknown as FastifyRequest);
  clock.set(startMs + 4_999);
  expect(await open()).toMatchObject({ kind: 'key', keyId: key!.id });
  clock.set(startMs + 5_000);
  await expect(open()).rejects.toMatchObject({ reason: ErrorReason.INVALID_API_KEY });
});
