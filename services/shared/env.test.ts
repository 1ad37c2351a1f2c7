import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readEnv } from './env.ts';

let dataDir: string;
let secrets: string;
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'env-'));
  secrets = join(dataDir, 'secrets');
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));
const read = () => readEnv({ DATA_DIR: dataDir });

test('secrets that were made up are the same ever after, and nothing else is left of their making', () => {
  const { keyPeppers, serviceSecrets } = read();
  expect(keyPeppers[0]!.secret).toHaveLength(64);
  expect(read()).toMatchObject({ keyPeppers, serviceSecrets });
  expect(readdirSync(secrets).sort()).toEqual(['key_pepper', 'service_secret']);
});

test.each(['', 'cut'])('a secret of which %j is left stops the start, instead of being none', (left) => {
  mkdirSync(secrets);
  writeFileSync(join(secrets, 'key_pepper'), left);
  expect(read).toThrow(/^KEY_PEPPER in .*key_pepper is shorter than 32 characters/);
});
