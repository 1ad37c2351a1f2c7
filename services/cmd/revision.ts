import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { hashOfFiles } from '#shared/hash-of-files.ts';

const digits = 12;

/**
 * What tells one state of the sources in `folder` from another: the commit that git has checked out there, or where there is none, as in
 * most images, a hash of the files and folders that are named.
 */
export const revisionOf = (folder: string, names: readonly string[]): string =>
  (commitIn(join(folder, '.git')) ?? hashOfFiles(folder, names)).slice(0, digits);

/** Read without git's program, which need not be there, and costs a start more. Undefined where it is kept otherwise, as for worktrees. */
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
