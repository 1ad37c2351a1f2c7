import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import { owner } from './gateway.ts';

/** A data folder for each test of a file, and the environment of a gateway that is started on it. */
export function ownDataDir(): { readonly path: string; env(): Record<string, string> } {
  let path = '';
  beforeEach(() => {
    path = mkdtempSync(join(tmpdir(), 'gateway-start-'));
  });
  afterEach(() => rmSync(path, { recursive: true, force: true }));
  return {
    get path() {
      return path;
    },
    env: () => ({
      PORT: '0',
      RPC_PORT: '0',
      DATA_DIR: path,
      BOOTSTRAP_EMAIL: owner.email,
      BOOTSTRAP_PASSWORD: owner.password,
      LOG_LEVEL: 'error',
    }),
  };
}

/** Set where none are to be generated in DATA_DIR. */
export const givenSecrets = {
  KEY_PEPPER: 'a pepper that is long enough for a test',
  SERVICE_SECRET: 'a service secret that is long enough',
};
