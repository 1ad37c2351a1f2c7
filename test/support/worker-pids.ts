import { readdirSync, readFileSync } from 'node:fs';

/** The process ids of the WORKERS of a gateway, whose own is `gatewayPid`, as Linux knows them. */
export const pidsOfWorkers = (gatewayPid: number): number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0)
    .filter((pid) => {
      try {
        const [, rest] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(/\) /);
        const isChild = Number(rest!.split(' ')[1]) === gatewayPid;
        return isChild && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('edge.ts');
      } catch {
        return false;
      }
    });
