import { spawnSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { StartError } from '#shared/start-error.ts';

/** How to start a program as the user that owns the data. */
export type DatabaseUser = {
  /** Who must own the data folder; undefined: this process's own user. */
  owner: { uid: number; gid: number } | undefined;
  /** What goes before the program and its arguments on the command line. */
  prefix: readonly string[];
  /** Options of `spawn` that do what the prefix cannot. */
  spawnOptions: { uid?: number; gid?: number };
};

/** `nobody` on Linux: Postgres refuses to run as root. */
export const nobody = { uid: 65_534, gid: 65_534 };

const setuidCapabilityBits = { dac_override: 1, dac_read_search: 2, setpcap: 8 };

/**
 * Decides as whom Postgres runs: as this process's user or, if that is root, as `owner`. Where setpriv exists, the kernel interrupts
 * Postgres when this process dies, however it dies. `paths` are the folders and programs that this user needs.
 */
export function databaseUser(owner: { uid: number; gid: number }, paths: readonly string[]): DatabaseUser {
  const setpriv = process.platform === 'linux' && spawnSync('setpriv', ['--version']).status === 0;
  const stopWithParent = ['setpriv', '--pdeathsig', 'INT'];
  if (process.geteuid?.() !== 0) {
    return { owner: undefined, prefix: setpriv ? [...stopWithParent, '--'] : [], spawnOptions: {} };
  }

  const closed = paths.flatMap(ancestors).filter((path) => !canPass(path, owner));
  if (!setpriv) {
    if (closed[0] !== undefined) throw unreachable(closed[0], owner.uid);
    return { owner, prefix: [], spawnOptions: owner };
  }
  const identity = ['--reuid', String(owner.uid), '--regid', String(owner.gid), '--clear-groups'];
  const passage = closed.length === 0 ? [] : passageArguments(closed, owner.uid);
  return { owner, prefix: [...stopWithParent, ...identity, ...passage, '--'], spawnOptions: {} };
}

/**
 * A folder such as /root is closed to everybody else, and so is everything that root installs with umask 077. Instead of opening it, this
 * gives Postgres the one capability that passes it. `no_setuid_fixup` lets access(2), by which Postgres looks for its own program, see the
 * capability too.
 */
function passageArguments(closed: readonly string[], uid: number): string[] {
  const permitted = permittedCapabilities();
  const has = (bit: number): boolean => (permitted & (1n << BigInt(bit))) !== 0n;
  // dac_override also allows writing; but containers usually have only that one, and no other allows running a closed program.
  const sufficient = closed.every(isFolder)
    ? (['dac_read_search', 'dac_override'] as const)
    : (['dac_override'] as const);
  const capability = sufficient.find((name) => has(setuidCapabilityBits[name]));
  if (capability === undefined || !has(setuidCapabilityBits.setpcap)) throw unreachable(closed[0]!, uid);
  return ['--securebits', '+no_setuid_fixup', '--inh-caps', `+${capability}`, '--ambient-caps', `+${capability}`];
}

function permittedCapabilities(): bigint {
  const match = /^CapPrm:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'));
  return match === null ? 0n : BigInt(`0x${match[1]}`);
}

const unreachable = (path: string, uid: number): StartError =>
  new StartError(
    `Postgres runs as user ${uid} because this process is root, and that user cannot enter ${path}: start as another user, ` +
      'move the project and DATA_DIR to a folder open to all, or set DATABASE_URL.',
  );

function ancestors(path: string): string[] {
  const parent = dirname(path);
  return parent === path ? [path] : [...ancestors(parent), path];
}

const isFolder = (path: string): boolean => statSync(path).isDirectory();

/** Whether the mode bits let a user enter a folder or run a file. Access lists are ignored, so a capability may be given needlessly. */
function canPass(path: string, user: { uid: number; gid: number }): boolean {
  const status = statSync(path);
  const shift = status.uid === user.uid ? 6 : status.gid === user.gid ? 3 : 0;
  return ((status.mode >> shift) & 1) === 1;
}
