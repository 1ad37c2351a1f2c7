import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, setPriority } from 'node:os';

// What Linux reports about processes. Everything is read from /proc, so that no agent runs inside what is measured.

/** Clock ticks of /proc/<pid>/stat; Linux shows 100 a second to user space on every architecture that Node runs on. */
const tickMs = 10;

/** A process and all its descendants, the parent first. */
export function treeOf(pid: number): number[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const parent = statOf(Number(name))?.parent;
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const tree = [pid];
  for (const member of tree) tree.push(...(children.get(member) ?? []));
  return tree;
}

/** User and system CPU time of a process and all its descendants, in milliseconds, including children that have ended. */
export const cpuMsOfTree = (pid: number): number =>
  treeOf(pid).reduce((sum, member) => sum + (statOf(member)?.ticks ?? 0) * tickMs, 0);

/** Memory of a process and all its descendants, in MiB; shared pages are counted once. */
export const memoryMiBOfTree = (pid: number): number =>
  treeOf(pid).reduce((sum, member) => sum + memoryMiBOf(member), 0);

/** Memory of a process alone, in MiB, with its share of shared pages. */
export function memoryMiBOf(pid: number): number {
  const rollup = tryRead(`/proc/${pid}/smaps_rollup`);
  return Number(/^Pss:\s+(\d+)/m.exec(rollup ?? '')?.[1] ?? 0) / 1024;
}

/**
 * How long the main thread of a process has run or waited to run, in milliseconds. A thread for which this grows as fast as time always had
 * something to do: everything else waits for it, however much of the core others took.
 */
export function runnableMs(pid: number, thread = pid): number {
  const { ranMs, waitedMs } = scheduled(pid, thread);
  return ranMs + waitedMs;
}

/** The same for every thread of a process and all its descendants, by thread id. */
export const runnableMsOfThreads = (pid: number): Map<number, number> =>
  new Map(threadsOfTree(pid).map(([member, thread]) => [thread, runnableMs(member, thread)]));

/** CPU time of the current threads of a process and all its descendants, in milliseconds: exact, while ticks are coarse. */
export const exactCpuMsOfTree = (pid: number): number =>
  threadsOfTree(pid).reduce((sum, [member, thread]) => sum + scheduled(member, thread).ranMs, 0);

const threadsOfTree = (pid: number): (readonly [pid: number, thread: number])[] =>
  treeOf(pid).flatMap((member) => threadsOf(member).map((thread) => [member, thread] as const));

function scheduled(pid: number, thread: number): { ranMs: number; waitedMs: number } {
  const [ranNs, waitedNs] = (tryRead(`/proc/${pid}/task/${thread}/schedstat`) ?? '0 0').split(' ');
  return { ranMs: Number(ranNs) / 1e6, waitedMs: Number(waitedNs) / 1e6 };
}

function threadsOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).map(Number);
  } catch {
    return [];
  }
}

/**
 * Where processes run: contenders have a core of their own, everything else shares another. Undefined if taskset is missing or there is
 * only one core.
 */
export const cores = hasTaskset() && availableParallelism() > 1 ? { contender: 0, rest: 1 } : undefined;

/** Binds every thread of a process, and everything that it starts from now on, to one core. */
export function pin(pid: number, place: 'contender' | 'rest'): void {
  if (cores !== undefined) execFileSync('taskset', ['-acp', String(cores[place]), String(pid)], { stdio: 'ignore' });
}

/**
 * Gives a process priority over others on a shared machine (nice -20 to 19); below 0 this needs root. If Linux first shares cores between
 * sessions (sched_autogroup), thread priorities count within a session only, so a session that this process leads gets the priority too.
 */
export function prioritize(pid: number, nice: number): void {
  for (const thread of threadsOf(pid)) setPriority(thread, nice);
  const group = `/proc/${pid}/autogroup`;
  if (statOf(pid)?.session !== pid || !tryRead(group)?.includes(' nice ')) return;
  writeFileSync(group, String(nice));
}

/**
 * Lets every thread of a process run as soon as it has something to do, before all ordinary work on its core, or makes it ordinary again.
 * Returns whether that was permitted: it needs root.
 */
export function makeRealtime(pid: number, on: boolean): boolean {
  try {
    execFileSync('chrt', ['-a', on ? '-f' : '-o', '-p', on ? '1' : '0', String(pid)], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** Parent, session and ticks (its own, and those of children that ended and were waited for); undefined if the process has ended. */
function statOf(pid: number): { parent: number; session: number; ticks: number } | undefined {
  const text = tryRead(`/proc/${pid}/stat`);
  if (text === undefined) return undefined;
  // The name in brackets may contain anything, so fields are counted from its end (proc_pid_stat(5): ppid 4, session 6, utime 14 to cstime
  // 17).
  const fields = text.slice(text.lastIndexOf(') ') + 2).split(' ');
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  return { parent: Number(fields[1]), session: Number(fields[3]), ticks };
}

function tryRead(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return undefined;
  }
}

function hasTaskset(): boolean {
  try {
    execFileSync('taskset', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
