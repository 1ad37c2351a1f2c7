import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { createOneThread } from './one-thread.ts';

test('work for which no thread can be started, as without a free descriptor, fails, and the next one gets a thread', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'thread-'));
  const file = join(folder, 'echo.mjs');
  const thread = createOneThread(pathToFileURL(file));
  try {
    const work = () => thread.inTurn((run) => run<string>('done'));
    const failing = [work(), work()];
    for (const failed of failing) await expect(failed).rejects.toThrow('Cannot find module');
    writeFileSync(file, 'export default (task) => task;');
    expect(await work()).toBe('done');
  } finally {
    await thread.close();
    rmSync(folder, { recursive: true });
  }
});
