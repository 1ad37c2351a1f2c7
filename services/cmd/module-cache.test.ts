import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';

/** An installation with one package, whose only export is the file that it names, and a program that prints what it imports from it. */
function installation() {
  const root = mkdtempSync(join(tmpdir(), 'module-cache-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  const write = (name: string, contents: string) => {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), contents);
  };
  write('package.json', '{"type":"module"}');
  write('program.js', "import { text } from 'a-package'; console.log(text);");
  for (const text of ['one', 'other']) write(`node_modules/a-package/${text}.js`, `export const text = '${text}';`);
  mkdirSync(join(root, 'services/cmd'), { recursive: true });
  cpSync(fileURLToPath(new URL('./module-cache.js', import.meta.url)), join(root, 'services/cmd/module-cache.js'));
  const install = (exported: string) => {
    const manifest = { name: 'a-package', type: 'module', exports: `./${exported}.js` };
    write('node_modules/a-package/package.json', JSON.stringify(manifest));
    write('node_modules/.package-lock.json', JSON.stringify({ exported }));
  };
  return {
    root,
    write,
    install,
    kept: join(root, 'node_modules/.cache/model-gateway/imports.json'),
    run: async (...options: string[]): Promise<string> => {
      const args = ['--import', './services/cmd/module-cache.js', ...options, 'program.js'];
      const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root });
      return stdout.trim();
    },
  };
}

test('a program finds its imports where the one before did, until packages are installed', async () => {
  const { install, write, run } = installation();
  install('one');
  expect(await run()).toBe('one');
  // Not as npm does it: nothing tells of the change, so that only what was kept leads to the former file.
  write('node_modules/a-package/package.json', '{"type":"module","exports":"./other.js"}');
  expect(await run()).toBe('one');
  install('other');
  expect(await run()).toBe('other');
});

test('what was kept only in part is kept anew', async () => {
  const { install, write, run, kept } = installation();
  install('one');
  await run();
  const whole = readFileSync(kept, 'utf8');
  write('node_modules/.cache/model-gateway/imports.json', whole.slice(0, -10));
  expect(await run()).toBe('one');
  expect(readFileSync(kept, 'utf8')).toBe(whole);
});

test('a program that others prepare, which may lead its imports elsewhere, neither uses nor keeps where they led', async () => {
  const { install, write, run, kept } = installation();
  install('one');
  const elsewhere = `import { registerHooks } from 'node:module'; registerHooks({ resolve: (name, context, next) =>
    name === 'a-package' ? { url: new URL('./node_modules/a-package/other.js', context.parentURL).href, shortCircuit: true } : next(name, context) });`;
  write('elsewhere.js', elsewhere);
  expect(await run('--import', './elsewhere.js')).toBe('other');
  expect(existsSync(kept)).toBe(false);
  expect(await run()).toBe('one');
  expect(await run('--import', './elsewhere.js')).toBe('other');
});

test('a package that is missing is told as such, and found anew, though it was kept where it had been', async () => {
  const { install, write, run, root } = installation();
  install('one');
  await run();
  renameSync(join(root, 'node_modules/a-package'), join(root, 'moved'));
  await expect(run()).rejects.toThrow("Cannot find package 'a-package'");
  write('node_modules/a-package/package.json', '{"type":"module","exports":"./moved.js"}');
  write('node_modules/a-package/moved.js', "export const text = 'moved';");
  expect(await run()).toBe('moved');
});
