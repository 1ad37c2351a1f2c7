import { execFile } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { owner, startTestGateway } from './support/gateway.ts';

const root = new URL('..', import.meta.url);
const readme = readFileSync(new URL('README.md', root), 'utf8');
const manual = readFileSync(new URL('services/README.md', root), 'utf8');
const section = (title: string): string => readme.split(`## ${title}\n`)[1]!.split('\n## ')[0]!;

test('every path in "Where is…?" exists', () => {
  const paths = [...section('Where is…?').matchAll(/`([a-z][\w./-]*)`/g)].map(([, path]) => path!);
  expect(paths.length).toBeGreaterThan(10);
  expect(paths.filter((path) => !existsSync(new URL(path, root)))).toEqual([]);
});

test('every link between it and the manuals in services/ and proto/ leads to a heading that exists', () => {
  const headings = (file: URL) =>
    [...readFileSync(file, 'utf8').matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
      heading!
        .toLowerCase()
        .replaceAll(/[^a-z0-9 -]/g, '')
        .replaceAll(' ', '-'),
    );
  const broken = ['README.md', 'services/README.md', 'proto/README.md'].flatMap((name) =>
    [...readFileSync(new URL(name, root), 'utf8').matchAll(/\]\((?!https?:)([^)]+)\)/g)]
      .map(([, link]) => new URL(link!, new URL(name, root)))
      .filter((file) => !existsSync(file) || (file.hash !== '' && !headings(file).includes(file.hash.slice(1))))
      .map(String),
  );
  expect(broken).toEqual([]);
});

test('every variable that the environment reads is in the configuration table, and vice versa', () => {
  const files = ['env.ts', 'env/secrets.ts', 'env/values.ts'];
  const source = files.map((name) => readFileSync(new URL(`services/shared/${name}`, root), 'utf8')).join();
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

test('every metric that it or the operators’ manual names exists', () => {
  const files = globSync('{edge,services}/**/*.ts', { cwd: root, exclude: ['edge/portal/**', '**/*.test.ts'] });
  const sources = files.map((name) => readFileSync(new URL(name, root), 'utf8')).join();
  const named = `${readme}${manual}`.match(/\bgateway_[a-z_]+[a-z]/g)!;
  expect(named.length).toBeGreaterThan(10);
  expect(named.filter((name) => !sources.includes(`'${name}'`))).toEqual([]);
});

test('the five minutes work as written: in one shell, and in the JavaScript started from it', async () => {
  await using gateway = await startTestGateway();
  const tour = section('Five minutes')
    .replaceAll('http://127.0.0.1:8080', gateway.url)
    .replace('owner@example.com', owner.email)
    .replace('THE PRINTED PASSWORD', owner.password);
  const steps = [...tour.matchAll(/```(sh|js)\n(.*?)```/gs)].map(([, language, text]) =>
    language === 'js' ? `node --input-type=module <<'PROGRAM'\n${text}\nPROGRAM\n` : text!,
  );
  const untilUpstream = steps.filter((step) => !step.includes('npm start'));
  expect(untilUpstream).toHaveLength(5);
  const { stdout } = await promisify(execFile)('bash', ['-euc', untilUpstream.join('\n')]);
  expect(stdout).toContain('data: [DONE]');
  // From the JavaScript, whose words are not split into events.
  expect(stdout).toContain('sandbox. No model ran for this answer');
  expect(stdout).toContain('"period_start"');
  expect(stdout).toContain('"pagination"');
});
