import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startProcess } from '../../test/support/processes.ts';

/** Does many times what each process does at its start: makes a folder, then removes those of dead processes. */
const manyStarts = `
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { lockFolder, lockNewFolder } from './services/shared/folder-lock.ts';
for (let count = 0; count < 100; count += 1) {
  const { lock } = lockNewFolder(process.env.FOLDERS);
  for (const name of readdirSync(process.env.FOLDERS)) {
    if (!name.startsWith('removed-')) lockFolder(join(process.env.FOLDERS, name))?.removeFolder();
  }
  lock.release();
}`;

test('processes that start at the same moment get a folder each, even if one takes the new folder of another for that of a dead process', async () => {
  const folders = mkdtempSync(join(tmpdir(), 'folder-locks-'));
  const command = [process.execPath, '--input-type=module', '--eval'];
  const started = Array.from({ length: 3 }, () =>
    startProcess({ command, script: manyStarts, env: { FOLDERS: folders } }),
  );
  try {
    for (const each of started) expect(await each.exited(), each.output).toEqual({ code: 0, signal: null });
  } finally {
    await Promise.all(started.map((each) => each.kill()));
    rmSync(folders, { recursive: true, force: true });
  }
});
