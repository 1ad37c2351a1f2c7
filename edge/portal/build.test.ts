import { execFile } from 'node:child_process';
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { hashOfFiles } from '#shared/hash-of-files.ts';
import { portalSources } from './build.ts';

const run = promisify(execFile);

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

test('without development packages a start keeps a portal of other sources but warns of it, and `npm run portal` refuses', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'mg-portal-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const name of ['package.json', 'edge/portal/build.ts', 'services/shared', ...portalSources]) {
    cpSync(join(import.meta.dirname, '../..', name), join(folder, name), { recursive: true });
  }
  const build = join(folder, 'edge/portal/build.ts');
  const started = `import { builtPortal } from ${JSON.stringify(build)};
    console.log(await builtPortal({ warn: (line) => console.log(line) }));`;
  const start = async () => (await run(process.execPath, ['--input-type=module', '--eval', started])).stdout;
  const dist = join(folder, 'edge/portal/dist');
  mkdirSync(dist);
  writeFileSync(join(dist, 'index.html'), '');
  writeFileSync(join(dist, '.sources'), 'those of another version');
  expect(await start()).toMatch(
    /^The portal's sources have changed since it was built\. .*npm run portal.*\n.*\/dist\n$/,
  );
  await expect(run(process.execPath, [build])).rejects.toThrow('The portal could not be built');
  writeFileSync(join(dist, '.sources'), hashOfFiles(folder, portalSources));
  expect(await start()).toBe(`${dist}\n`);
  await run(process.execPath, [build]);
});
