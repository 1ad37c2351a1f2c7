import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

/** A living process. A zombie is not: it has ended and waits for a parent that may never ask. */
type LiveProcess = {
  /** The whole command line. */
  command: string;
  /** When it started, in some unit: together with the pid this identifies a process, since pids are reused. */
  started: string;
};

/** Looks up a process; undefined when there is none. Reads only what any user may see of another's process. */
export function findProcess(pid: number): LiveProcess | undefined {
  return process.platform === 'linux' ? findInProc(pid) : findWithPs(pid);
}

function findInProc(pid: number): LiveProcess | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // proc_pid_stat(5): the name, second, is in parentheses and may hold any character.
    const fields = status.slice(status.lastIndexOf(')') + 2).split(' ');
    const state = fields[0]!;
    if (state === 'Z' || state === 'X') return undefined;
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
    return { command, started: `${bootId()}/${fields[19]}` };
  } catch {
    return undefined;
  }
}

/** Start times count from the boot, so the boot is part of a process's identity. */
const bootId = (): string => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();

function findWithPs(pid: number): LiveProcess | undefined {
  const lines = spawnSync('ps', ['-ww', '-p', String(pid), '-o', 'stat=,lstart=,command='], { encoding: 'utf8' });
  const match = /^\s*(\S+)\s+(\w+\s+\w+\s+\d+\s+[\d:]+\s+\d+)\s+(.*)$/m.exec(lines.stdout ?? '');
  if (match === null || match[1]!.startsWith('Z')) return undefined;
  return { command: match[3]!, started: match[2]! };
}

/** Waits until the condition holds; false when it still does not after `timeoutMs`. */
export async function waitUntil(condition: () => boolean, timeoutMs: number): Promise<boolean> {
  const deadline = performance.now() + timeoutMs;
  while (!condition()) {
    if (performance.now() > deadline) return false;
    await delay(10);
  }
  return true;
}
