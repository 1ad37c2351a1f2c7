import { expect, test } from 'vitest';
import { createSecretBox } from './secret-box.ts';

test('what Auth stored under an earlier version still opens', () => {
  const stored = Buffer.from('QPhqbzWO6HPnYmK2wgDh0Md4GA3Jhky7k8qsRIGR3cli155zSauR37UR-A', 'base64url');
  const box = createSecretBox(['a new secret', 'an old secret'], 'model-gateway auth secret box');
  expect(box.open(stored, 'mail 1')?.toString()).toBe('what was stored');
});

test('a box opens only with its own secret, purpose and context', () => {
  const box = createSecretBox(['a secret'], 'a purpose');
  const sealed = box.seal(Buffer.from('content'), 'a context');
  expect(box.open(sealed, 'a context')?.toString()).toBe('content');
  expect(createSecretBox(['another secret', 'a secret'], 'a purpose').open(sealed, 'a context')).not.toBeNull();
  expect(createSecretBox(['another secret'], 'a purpose').open(sealed, 'a context')).toBeNull();
  expect(createSecretBox(['a secret'], 'another purpose').open(sealed, 'a context')).toBeNull();
  expect(box.open(sealed, 'another context')).toBeNull();
  expect(box.open(Buffer.alloc(3), 'a context')).toBeNull();
});
