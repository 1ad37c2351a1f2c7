import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

/** Imports that remain when the types are stripped; those by `import()` happen only when reached. */
const imports = /^(?:import|export)\s(?!type\s)(?:[^';]*?\sfrom\s)?'([^']+)'/gm;

/** The gateway's modules that are loaded with these entries, and the packages that they import. */
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

test("an operator's command loads neither what the database needs nor what calls upstreams", () => {
  const { packages } = loadedWith('./admin.ts', './admin/run-admin.ts');
  expect(packages).toContain('yaml');
  expect([...packages].filter((name) => /^(pg|undici|fastify|@mikro-orm)/.test(name))).toEqual([]);
});
