import { once } from 'node:events';
import { freePort } from '../support/free-port.ts';
import { memoryMiBOfTree } from './machine.ts';
import { runRound } from './measure.ts';
import type { Entrant, Stage } from './stage.ts';
import { type Workload, workloads } from './workloads.ts';

/** What the gateway holds before the first and after every `every` requests, in MiB. */
export type Soak = {
  requests: number;
  every: number;
  /** The process's memory, according to Linux. */
  memoryMiB: number[];
  /** JavaScript objects in use, after a collection. */
  heapMiB: number[];
};

const every = 50_000;
/** How much memory may grow over the last half of a soak and still count as flat, as a fraction. */
const growthMax = 0.05;

const [small, bursts] = ['small', 'bursts'].map((name) => workloads.find((one) => one.name === name)!);
/** One request in twenty is a stream. */
const mixed: Workload = { ...small!, requests: [...Array(19).fill(small!.requests[0]), bursts!.requests[0]] };

/** Sends small chats and some streams to the gateway, restarted with an inspector that reports its heap. */
export async function runSoak(
  stage: Stage,
  entrant: Entrant,
  options: { requests: number; print: (line: string) => void },
): Promise<Soak> {
  const { requests, print } = options;
  const port = await freePort();
  await entrant.running!.stop();
  const { pid } = await stage.launch(entrant, { args: [`--inspect=127.0.0.1:${port}`] });
  using heap = await inspectHeap(port);
  const soak: Soak = { requests, every, memoryMiB: [], heapMiB: [] };
  const note = async (): Promise<void> => {
    soak.memoryMiB.push(memoryMiBOfTree(pid));
    soak.heapMiB.push(await heap.usedMiB());
    const [memory, used] = [soak.memoryMiB.at(-1)!, soak.heapMiB.at(-1)!];
    print(`${(soak.heapMiB.length - 1) * every} requests: ${memory.toFixed(0)} MiB, heap ${used.toFixed(1)} MiB`);
  };
  await note();
  for (let sent = 0; sent < requests; sent += every) {
    const { refused } = await runRound(stage, entrant, mixed, { seconds: 0, count: every });
    if (refused !== undefined) print(`(${refused})`);
    await note();
  }
  return soak;
}

/** How much a line fitted to the last half of a series rises over that half, in the series' unit. */
export function growthOfLastHalf(series: readonly number[]): number {
  const half = series.slice(Math.floor(series.length / 2));
  const middle = (half.length - 1) / 2;
  const mean = meanOf(half);
  let [products, squares] = [0, 0];
  for (const [index, value] of half.entries()) {
    products += (index - middle) * (value - mean);
    squares += (index - middle) ** 2;
  }
  return squares === 0 ? 0 : (products / squares) * (half.length - 1);
}

/** Whether a series is flat in its last half; the first half is the warm-up. */
export const isFlat = (series: readonly number[]): boolean =>
  growthOfLastHalf(series) <= meanOf(series.slice(Math.floor(series.length / 2))) * growthMax;

const meanOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Queries a Node process through its inspector (Chrome DevTools Protocol). */
async function inspectHeap(port: number): Promise<Disposable & { usedMiB(): Promise<number> }> {
  const targets = await fetch(`http://127.0.0.1:${port}/json/list`);
  const [target] = (await targets.json()) as { webSocketDebuggerUrl: string }[];
  const socket = new WebSocket(target!.webSocketDebuggerUrl);
  await once(socket, 'open');
  let id = 0;
  const call = async (method: string): Promise<{ usedSize: number }> => {
    id += 1;
    socket.send(JSON.stringify({ id, method }));
    for (;;) {
      const [{ data }] = (await once(socket, 'message')) as [{ data: string }];
      const answer = JSON.parse(data) as { id?: number; result: { usedSize: number } };
      if (answer.id === id) return answer.result;
    }
  };
  return {
    async usedMiB() {
      await call('HeapProfiler.collectGarbage');
      return (await call('Runtime.getHeapUsage')).usedSize / 2 ** 20;
    },
    [Symbol.dispose]: () => socket.close(),
  };
}
