import { cpuUsage } from 'node:process';

type Stopwatch = Disposable & {
  /** Milliseconds so far in which this process ran or could have run. */
  readonly ms: number;
};

/** The time between two looks at the clock; an idle process is late by less than this. */
const tickMs = 5;

/**
 * Measures how long something takes that runs in this process, such as a gateway and its client. While other processes occupy the machine
 * and this one waits for a core, the watch stops, so that a bound on its time is a bound on the program and not on the machine's other
 * work. Time in which the process itself works counts in full.
 */
export function startStopwatch(): Stopwatch {
  let countedMs = 0;
  let lookedMs = performance.now();
  let workedMs = cpuMs();
  const look = (): void => {
    const nowMs = performance.now();
    const nowWorkedMs = cpuMs();
    countedMs += Math.min(nowMs - lookedMs, 2 * tickMs + nowWorkedMs - workedMs);
    lookedMs = nowMs;
    workedMs = nowWorkedMs;
  };
  const timer = setInterval(look, tickMs).unref();
  return {
    get ms() {
      look();
      return countedMs;
    },
    [Symbol.dispose]: () => clearInterval(timer),
  };
}

/** How long this process has worked so far, in milliseconds. */
function cpuMs(): number {
  const { user, system } = cpuUsage();
  return (user + system) / 1_000;
}
