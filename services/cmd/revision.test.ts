import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { revisionOf } from './revision.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'revision-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function write(name: string, text: string): void {
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

const revision = () => revisionOf(folder, ['services', 'package-lock.json']);
const [first, second, third] = ['1', '2', '3'].map((digit) => digit.repeat(40)) as [string, string, string];

test('a revision is the checked-out commit, whether on a branch or not', () => {
  write('.git/HEAD', 'ref: refs/heads/main\n');
  write(
    '.git/packed-refs',
    `# pack-refs with: peeled fully-peeled sorted\n${third} refs/heads/x/main\n${first} refs/heads/main\n`,
  );
  expect(revision()).toBe(first.slice(0, 12));
  write('.git/refs/heads/main', `${second}\n`);
  expect(revision()).toBe(second.slice(0, 12));
  write('.git/HEAD', `${third}\n`);
  expect(revision()).toBe(third.slice(0, 12));
});

test('without git it is a hash of the sources, which is the same only for the same sources', () => {
  const seen = () => [revision(), revision()];
  const [none] = seen();
  expect(none).toMatch(/^[0-9a-f]{12}$/);
  write('services/one.ts', 'one');
  const [one, again] = seen();
  expect([one === again, one === none]).toEqual([true, false]);
  write('services/dist/built.js', 'built');
  write('services/one.test.ts', 'tested');
  write('elsewhere/two.ts', 'two');
  // A worktree, whose repository is somewhere else.
  write('.git', `gitdir: ${folder}/nowhere\n`);
  expect(revision()).toBe(one);
  write('services/one.ts', 'two');
  expect(revision()).not.toBe(one);
});
