import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

/** Imports that are still there when the types are stripped; those by `import()` are made when they are come to. */
const imports = /^(?:import|export)\s(?!type\s)(?:[^';]*?\sfrom\s)?'([^']+)'/gm;

/** The gateway's modules that are loaded with one, and the packages that all of them import. */
function loadedWith(...entries: string[]): { modules: Set<string>; packages: Set<string> } {
  const modules = new Set<string>();
  const packages = new Set<string>();
  const load = (url: string): void => {
    if (modules.has(url)) return;
    modules.add(url);
    if (!url.endsWith('.ts')) return;
    for (const [, specifier] of readFileSync(fileURLToPath(url), 'utf8').matchAll(imports)) {
      if (/^[.#]/.test(specifier!)) load(import.meta.resolve(specifier!, url));
      else packages.add(/^(@[^/]+\/)?[^/]+/.exec(specifier!)![0]);
    }
  };
  for (const entry of entries) load(import.meta.resolve(entry, import.meta.url));
  return { modules, packages };
}

test('an edge alone loads neither services nor what the database needs', () => {
  const { modules, packages } = loadedWith('./edge.ts', './gateway.ts', './parts/edge.ts', './parts/inference.ts');
  const services = /\/services\/(keys|auth|usage|billing|jobs|models\/(rpc|db))\//;
  expect([...modules].filter((url) => services.test(url))).toEqual([]);
  expect(packages).toContain('fastify');
  expect([...packages].filter((name) => /^(pg|@mikro-orm)/.test(name))).toEqual([]);
});

test('a service alone loads nothing of the edge', () => {
  const { modules, packages } = loadedWith('./service.ts', './gateway.ts', './parts/database.ts', './services.ts');
  expect([...modules].filter((url) => url.includes('/edge/'))).toEqual([]);
  expect(packages).toContain('pg');
  expect(packages).not.toContain('typebox');
});

test('a command of operators loads neither what the database needs nor what calls upstreams', () => {
  const { packages } = loadedWith('./admin.ts');
  expect(packages).toContain('yaml');
  expect([...packages].filter((name) => /^(pg|undici|fastify|@mikro-orm)/.test(name))).toEqual([]);
});
