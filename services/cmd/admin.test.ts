import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';

test('a reader that leaves before the end of the output, as `head` does, is no failure', async () => {
  const child = spawn(process.execPath, ['services/cmd/admin.ts', 'help'], {
    env: { SERVICE_SECRET: 'x'.repeat(32) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  child.stdout.destroy();
  const [told, [exitCode]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
  expect([exitCode, told]).toEqual([0, '']);
});
