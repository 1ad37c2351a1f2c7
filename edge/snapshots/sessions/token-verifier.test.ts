import { generateKeyPairSync } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { SignJWT } from 'jose';
import { expect, test } from 'vitest';
import { SigningKeySchema } from '#gen/modelgateway/auth/v1/signing_key_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { accessToken, tokenAlgorithm } from '#shared/session-token.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { TokenVerifier } from './token-verifier.ts';

const startMs = Date.parse('2030-01-01T00:00:00Z');
const issuer = 'https://gateway.example';
const kid = 'replaced';

test('a key that was replaced verifies nothing from its expiry on, even if no news arrives and its tokens claim to last longer', async () => {
  const clock = new ManualClock(startMs);
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const verifier = new TokenVerifier({ clock, issuer });
  const x = Buffer.from(publicKey.export({ format: 'jwk' }).x!, 'base64url');
  verifier.setKeys([create(SigningKeySchema, { kid, publicKey: x, expiresAt: timestampFromMs(startMs + 1_000) })]);
  const ids = { sid: uuidv7(), tenant_id: uuidv7(), role: 'member' };
  const token = await new SignJWT(ids)
    .setProtectedHeader({ alg: tokenAlgorithm, typ: accessToken.type, kid })
    .setIssuer(issuer)
    .setAudience(accessToken.audience)
    .setSubject(uuidv7())
    .setJti(uuidv7())
    .setIssuedAt(new Date(startMs))
    .setExpirationTime(new Date(startMs + accessToken.lifetimeMs))
    .sign(privateKey);

  clock.advance(999);
  await expect(verifier.verify(token)).resolves.toMatchObject({ kid });
  expect(verifier.accepts(kid)).toBe(true);
  clock.advance(1);
  await expect(verifier.verify(token)).rejects.toMatchObject({ reason: ErrorReason.INVALID_TOKEN });
  // A token that was verified before is asked about by its key alone.
  expect(verifier.accepts(kid)).toBe(false);
});
