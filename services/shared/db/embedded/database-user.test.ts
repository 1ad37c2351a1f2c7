import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { databaseUser, nobody } from './database-user.ts';

test.runIf(process.geteuid?.() === 0 && process.platform === 'linux')(
  'a program that root installed for itself alone, as under a umask of 077, is run and found by the user of Postgres',
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'mg-umask-'));
    try {
      const program = join(folder, 'postgres');
      copyFileSync('/bin/sh', program);
      chmodSync(program, 0o700);
      const [command, ...prefix] = databaseUser(nobody, [program]).prefix;
      const { stdout } = spawnSync(command!, [...prefix, program, '-c', 'id -u; test -x "$0" && echo found', program]);
      expect(String(stdout)).toBe(`${nobody.uid}\nfound\n`);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
);
