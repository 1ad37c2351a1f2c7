import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startProcess } from './processes.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'processes-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function script(text: string): string {
  const path = join(folder, `${Math.random().toString(36).slice(2)}.mjs`);
  writeFileSync(path, text);
  return path;
}

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

test('it provides environment, both kinds of output, port and exit code', async () => {
  await using child = startProcess({
    script: script(`
      process.stdout.write('listening at port ' + process.env.SOME_PORT + '\\n');
      process.stderr.write('done');
      process.exitCode = 3;
    `),
    env: { SOME_PORT: '4711' },
  });
  expect(await child.waitForPort(/port (\d+)/)).toBe(4711);
  expect(await child.exited()).toEqual({ code: 3, signal: null });
  expect(child.output).toContain('done');
});

test('the end of the scope kills it', async () => {
  let pid: number;
  {
    await using child = startProcess({ script: script(`process.stdout.write('up\\n'); setInterval(() => {}, 1000);`) });
    await child.waitForLine(/^up$/);
    pid = child.pid;
    expect(isAlive(pid)).toBe(true);
  }
  expect(isAlive(pid)).toBe(false);
});

test('kill is kill -9, which no handler can refuse', async () => {
  await using child = startProcess({
    script: script(
      `process.on('SIGTERM', () => process.stdout.write('no\\n')); process.stdout.write('up\\n'); setInterval(() => {}, 1000);`,
    ),
  });
  await child.waitForLine(/^up$/);
  child.signal('SIGTERM');
  await child.waitForLine(/^no$/);
  await child.kill();
  expect(child.exit).toEqual({ code: null, signal: 'SIGKILL' });
});

test('a process that ends before its line fails the wait at once, with its output', async () => {
  await using child = startProcess({ script: script(`throw new Error('port 80 is taken');`) });
  await expect(child.waitForLine(/listening/)).rejects.toThrow(/ended .*before it printed.*port 80 is taken/s);
});
