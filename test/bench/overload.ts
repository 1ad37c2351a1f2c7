/*
 * What happens to the gateway when far more is asked of it than it can serve: `node test/bench/overload.ts [seconds] [clients...]`, by
 * default 10 seconds with 1,000 and 3,000 clients at once. Small chats; first with 64 clients, to find the most that can be served. Each
 * client asks again as soon as it was answered or, if refused, when Retry-After says so, as the official clients do.
 */
import { readFileSync } from 'node:fs';
import { gateway } from './contenders/gateway.ts';
import { loadOf, percentile, runLoad, warmUp } from './measure.ts';
import { openStage } from './stage.ts';
import { workloads } from './workloads.ts';

const seconds = Number(process.argv[2] ?? 10);
const crowds = process.argv.length > 3 ? process.argv.slice(3).map(Number) : [1_000, 3_000];
const print = (line: string) => process.stdout.write(`${line}\n`);
const ms = (values: readonly number[], part: number) => `${percentile(values, part).toFixed(0)} ms`;

const stage = await openStage({ keyCount: 1, nice: 0 });
try {
  const entrant = await stage.enter(gateway);
  const { pid } = await stage.launch(entrant);
  const peakMebibytes = () => {
    const [, kibibytes] = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))!;
    return Math.round(Number(kibibytes) / 1024);
  };
  const small = workloads.find(({ name }) => name === 'small')!;
  await warmUp(stage, entrant, small);
  const load = { ...loadOf(entrant, small), seconds };
  const most = await runLoad(stage, load);
  const mostPerSecond = (most.requests * 1_000) / most.elapsedMs;
  print(
    `${load.connections} clients: ${mostPerSecond.toFixed(0)} served a second; memory up to ${peakMebibytes()} MiB`,
  );

  for (const connections of crowds) {
    const { latenciesMs, refusalsMs, elapsedMs } = await runLoad(stage, { ...load, connections, mayRefuse: true });
    const perSecond = (count: number) => (count * 1_000) / elapsedMs;
    const served = perSecond(latenciesMs.length);
    print(
      `${connections} clients: ${served.toFixed(0)} served a second (${((served / mostPerSecond) * 100).toFixed(0)}%), ` +
        `p50 ${ms(latenciesMs, 0.5)}, p99 ${ms(latenciesMs, 0.99)}; ${perSecond(refusalsMs.length).toFixed(0)} refused a second` +
        `${refusalsMs.length === 0 ? '' : `, p50 ${ms(refusalsMs, 0.5)}, p99 ${ms(refusalsMs, 0.99)}`}; memory up to ${peakMebibytes()} MiB`,
    );
  }
} finally {
  await stage.close();
}
