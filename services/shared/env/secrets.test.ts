import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { readSecret } from './secrets.ts';

const { openSync, writeFileSync, fsyncSync, linkSync } = fs;
afterEach(() => {
  Object.assign(fs, { openSync, writeFileSync, fsyncSync, linkSync });
  syncBuiltinESMExports();
});

/** Notes what is done with files from now on, by their names. */
function watchedFiles(): string[] {
  const calls: string[] = [];
  const names = new Map<number, string>();
  Object.assign(fs, {
    openSync(path: string, ...rest: [string]) {
      const fd = openSync(path, ...rest);
      names.set(fd, basename(path).replace(/-.*/, ' draft'));
      return fd;
    },
    writeFileSync(fd: number, ...rest: [string]) {
      calls.push(`write ${names.get(fd)}`);
      writeFileSync(fd, ...rest);
    },
    fsyncSync(fd: number) {
      calls.push(`sync ${names.get(fd)}`);
      fsyncSync(fd);
    },
    linkSync(from: string, to: string) {
      calls.push(`link ${basename(to)}`);
      linkSync(from, to);
    },
  });
  syncBuiltinESMExports();
  return calls;
}

test('a generated secret is on the disk before anything is made under it', () => {
  const dataDir = fs.mkdtempSync(join(tmpdir(), 'secrets-'));
  const calls = watchedFiles();
  try {
    readSecret({}, 'KEY_PEPPER', { dataDir, production: false, generates: true });
    expect(calls).toEqual(['write key_pepper draft', 'sync key_pepper draft', 'link key_pepper', 'sync secrets']);
  } finally {
    fs.rmSync(dataDir, { recursive: true });
  }
});
