import { expect, test } from 'vitest';
import { ClientSecrets, type SecretContent } from './client-secret.ts';

const content: SecretContent = {
  expiresAtMs: 1,
  holder: { kind: 'key', digests: ['1:ZGlnZXN0'] },
  sessionJson: '{"type":"transcription"}',
};

test('a secret can be read by every edge with the same SERVICE_SECRET, and during its rotation', () => {
  const sealed = new ClientSecrets(['old']).seal(content);
  expect(new ClientSecrets(['old']).open(sealed)).toEqual(content);
  expect(new ClientSecrets(['new', 'old']).open(sealed)).toEqual(content);
  expect(new ClientSecrets(['new']).open(sealed)).toBeNull();
});

test('no two secrets are equal, and none reveals its contents', () => {
  const secrets = new ClientSecrets(['a']);
  const [one, two] = [secrets.seal(content), secrets.seal(content)];
  expect(one).not.toBe(two);
  expect(one).toMatch(/^ek_[A-Za-z0-9_-]+$/);
  expect(Buffer.from(one.slice(3), 'base64url').toString('latin1')).not.toContain('transcription');
});

test('a secret with any byte changed is invalid', () => {
  const secrets = new ClientSecrets(['a']);
  const bytes = Buffer.from(secrets.seal(content).slice(3), 'base64url');
  for (let index = 0; index < bytes.length; index++) {
    const forged = Buffer.from(bytes);
    forged[index]! ^= 1;
    expect(secrets.open(`ek_${forged.toString('base64url')}`)).toBeNull();
  }
  for (const text of ['ek_', 'ek_AAAA', `ek_${'A'.repeat(100)}`]) expect(secrets.open(text)).toBeNull();
});
