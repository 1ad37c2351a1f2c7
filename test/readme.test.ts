import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8');
const section = (title: string): string => readme.split(`## ${title}\n`)[1]!.split('\n## ')[0]!;

test('every path in "Where is…?" exists', () => {
  const paths = [...section('Where is…?').matchAll(/`([a-z][\w./-]*)`/g)].map(([, path]) => path!);
  expect(paths.length).toBeGreaterThan(10);
  expect(paths.filter((path) => !existsSync(new URL(`../${path}`, import.meta.url)))).toEqual([]);
});

test('every variable that the environment reads is in the configuration table, and the other way round', () => {
  const source = readFileSync(new URL('../services/shared/env.ts', import.meta.url), 'utf8');
  const read = new Set(
    [...source.matchAll(/source\.([A-Z][A-Z_]+)|\(source, '([A-Z_]+)'|secret\('([A-Z_]+)'\)/g)].map(
      ([, a, b, c]) => a ?? b ?? c!,
    ),
  );
  const documented = new Set(
    [...section('Configuration').matchAll(/^\| (`[^|]+`) \|/gm)].flatMap(([, names]) => names!.match(/[A-Z_]{3,}/g)!),
  );
  expect([...read].sort()).toEqual([...documented].sort());
});
