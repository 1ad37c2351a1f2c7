import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';

// Nothing listens there, in case the arguments are accepted.
const env = {
  DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
  SERVICE_SECRET: 'x'.repeat(32),
  KEY_PEPPER: `1:${'y'.repeat(32)}`,
};

test.each([
  ['all', ['--port', '9000'], 'npm start takes no arguments: set variables'],
  ['migrate', ['--dry-run'], 'npm run migrate takes no arguments'],
  ['service', ['keys', 'auht'], 'Name the services to run'],
  ['service', ['keys,', 'auht'], 'Name the services to run'],
])('services/cmd/%s.ts leaves none of its arguments unread: %j', async (script, argv, told) => {
  const child = spawn(process.execPath, [`services/cmd/${script}.ts`, ...argv], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const [stderr, [exitCode]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining(told)]);
});
