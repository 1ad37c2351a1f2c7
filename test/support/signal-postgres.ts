import { readFileSync } from 'node:fs';

/**
 * Stops or continues a Postgres server with all its sessions, as a hung disk or a paused container would. While the server itself stands
 * still none of them can leave the list, and one that has ended waits there to be reaped: so it is stopped first, and goes on last.
 */
export function signalPostgres(pid: number, signal: 'SIGSTOP' | 'SIGCONT'): void {
  if (signal === 'SIGSTOP') process.kill(pid, signal);
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number);
  for (const each of children) process.kill(each, signal);
  if (signal === 'SIGCONT') process.kill(pid, signal);
}
