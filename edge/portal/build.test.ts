import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { portalSources } from './build.ts';

test('whatever the portal is built of, also outside its folder, has it built anew when changed', () => {
  const folder = join(import.meta.dirname, 'src');
  const files = globSync('**/*.{ts,tsx}', { cwd: folder }).filter((name) => !name.endsWith('.test.ts'));
  const imported = files.flatMap((name) =>
    [...readFileSync(join(folder, name), 'utf8').matchAll(/^import (?!type ).* from '#(.*)';$/gm)].map(([, path]) =>
      path!.replace(/^shared/, 'services/shared'),
    ),
  );
  expect(imported).not.toEqual([]);
  expect(portalSources).toEqual(expect.arrayContaining(imported));
});
