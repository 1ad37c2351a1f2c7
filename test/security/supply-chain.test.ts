import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

type Package = {
  version?: string;
  resolved?: string;
  integrity?: string;
  inBundle?: boolean;
  hasInstallScript?: boolean;
};
const read = (name: string) => JSON.parse(readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8'));
const manifest: {
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
  optionalDependencies: Record<string, string>;
  allowScripts: Record<string, boolean>;
} = read('package.json');
const locked: Record<string, Package> = read('package-lock.json').packages;
const packages = Object.entries(locked).filter(([path]) => path !== '');

test('every package is locked to one content', () => {
  expect(packages.length).toBeGreaterThan(100);
  // What a package brings in its own archive is covered by that archive's hash.
  const loose = packages.filter(([, { integrity, inBundle }]) => !inBundle && !integrity?.startsWith('sha512-'));
  expect(loose.map(([path]) => path)).toEqual([]);
});

test('every dependency is requested in one version, which is the locked one', () => {
  const { dependencies, devDependencies, optionalDependencies } = manifest;
  for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies })) {
    expect(locked[`node_modules/${name}`]?.version, name).toBe(version);
  }
});

test('no package runs an install script except those that are named', () => {
  const withScripts = packages.filter(([, { hasInstallScript }]) => hasInstallScript);
  const names = withScripts.map(([path]) => path.split('node_modules/').at(-1)!);
  expect(names.filter((name) => !Object.hasOwn(manifest.allowScripts, name))).toEqual([]);
});
