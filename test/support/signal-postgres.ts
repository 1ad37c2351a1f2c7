import { readFileSync } from 'node:fs';

/**
 * Stops or continues a Postgres server with all its sessions, like a hung disk or a paused container. While the server itself is stopped
 * none of them can leave the list, and one that has ended waits there to be reaped; so the server is stopped first and continued last.
 */
export function signalPostgres(pid: number, signal: 'SIGSTOP' | 'SIGCONT'): void {
  if (signal === 'SIGSTOP') process.kill(pid, signal);
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number);
  for (const each of children) process.kill(each, signal);
  if (signal === 'SIGCONT') process.kill(pid, signal);
}
