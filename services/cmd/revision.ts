import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { hashOfFiles } from '#shared/hash-of-files.ts';

const digits = 12;

/**
 * Identifies a state of the sources in `folder`: the commit that git has checked out there or, without git, as in most images, a hash of
 * the named files and folders.
 */
export const revisionOf = (folder: string, names: readonly string[]): string =>
  (commitIn(join(folder, '.git')) ?? hashOfFiles(folder, names)).slice(0, digits);

/** Read without the git program, which may be missing and would slow the start. Undefined if it is stored differently, as in worktrees. */
function commitIn(repository: string): string | undefined {
  const read = (name: string): string => {
    const path = join(repository, name);
    return existsSync(path) ? readFileSync(path, 'utf8').trim() : '';
  };
  const head = read('HEAD');
  const branch = /^ref: (.+)$/.exec(head)?.[1];
  if (branch === undefined) return head || undefined;
  const packed = () =>
    read('packed-refs')
      .split('\n')
      .find((line) => line.endsWith(` ${branch}`))
      ?.split(' ')[0];
  return read(branch) || packed();
}
