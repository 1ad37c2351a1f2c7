import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { expect, test, vi } from 'vitest';
import { findProcess } from './processes.ts';

test('this process is found, always with the same start time', () => {
  const found = findProcess(process.pid);
  expect(found?.started).toBeTruthy();
  expect(findProcess(process.pid)).toEqual(found);
});

test('a zombie counts as dead', async () => {
  // The shell becomes a `sleep` that never waits for the child it inherited, until that has ended.
  const parent = spawn('sh', ['-c', 'sleep 1 & echo $!; exec sleep 60'], { stdio: ['ignore', 'pipe', 'ignore'] });
  try {
    const [line] = await once(createInterface({ input: parent.stdout }), 'line');
    const pid = Number(line);
    await vi.waitFor(() => expect(findProcess(pid)).toBeUndefined(), 30_000);
    // The pid is still taken: the kernel keeps a zombie until its parent waits for it.
    expect(() => process.kill(pid, 0)).not.toThrow();
  } finally {
    parent.kill('SIGKILL');
  }
});
