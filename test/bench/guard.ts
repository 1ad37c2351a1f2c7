import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { fastifyUndici } from './contenders/fastify-undici.ts';
import { gateway } from './contenders/gateway.ts';
import { type Finding, findingOf, isKept, isLost, lossMax } from './guard-rule.ts';
import { exactCpuMsOfTree } from './machine.ts';
import { loadOf, runLoad, spreadOf } from './measure.ts';
import { type Entrant, enterAll, type Stage } from './stage.ts';
import { workloads } from './workloads.ts';

/**
 * results/baseline.json, by machine: CPU of the gateway divided by that of Fastify + undici without any duties, as medians over pairs of
 * slices. Where days differ, by up to a fifth for the same code, it is the most of them.
 */
type Baselines = Record<string, { at: string; commit: string; ratios: Record<string, number> }>;

/**
 * What is compared. A slice has as many requests as take about 0.4 s of CPU; a pair is a slice of each contender. Slices of the warm-up
 * come first: the gateway's cost falls until V8 has compiled the hot code, which takes some 25,000 small chats from its start, and until V8
 * lets bodies take more memory before a full collection: before that, each slice of large prompts may have its own.
 */
const guarded = [
  { name: 'small', gatewayRequests: 1_000, fastifyRequests: 3_000, warmUpSlices: 25 },
  { name: 'large', gatewayRequests: 400, fastifyRequests: 1_000, warmUpSlices: 20 },
  { name: 'paced', gatewayRequests: 40, fastifyRequests: 40, warmUpSlices: 4 },
  { name: 'bursts', gatewayRequests: 400, fastifyRequests: 1_200, warmUpSlices: 8 },
] as const;
type Guarded = (typeof guarded)[number];
/** How many pairs are measured: no more than the least once they leave no doubt that nothing was lost. */
const pairs = { min: 8, max: 24 };
/** A baseline is the median of this many starts. */
const startsOfBaseline = 3;
/** On a busy machine: without a complete warm-up in this time a workload is skipped, and fewer pairs give wider bounds. */
const secondsMax = { warmUp: 40, pairs: 20 };

/**
 * Compares the gateway's cost with the committed baseline of this machine; returns whether it holds. A workload that has become more
 * expensive is measured again with both contenders restarted, and counts only if it is still more expensive. `accept` writes the
 * measurements as the new baseline.
 */
export async function guard(
  stage: Stage,
  options: { file: string; accept: boolean; commit: string; print: (line: string) => void },
): Promise<boolean> {
  const { file, accept, commit, print } = options;
  const { entrants, missing } = await enterAll(stage, [fastifyUndici, gateway]);
  if (missing.length > 0) throw new Error(`${missing[0]!.contender.title} ${missing[0]!.reason}`);
  const [fastify, own] = entrants as [Entrant, Entrant];

  const machine = `${cpus()[0]!.model}, ${cpus().length} cores`;
  const baselines: Baselines = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
  const baseline = accept ? undefined : baselines[machine]?.ratios;
  if (!accept && baseline === undefined) {
    print(
      `There is no baseline for this machine (${machine}): nothing is compared. npm run bench -- --quick --accept writes one.`,
    );
  }

  const measure = async (workload: Guarded): Promise<Finding> => {
    const before = baseline?.[workload.name];
    const isEnough = (ratios: number[]) =>
      before !== undefined && ratios.length >= pairs.min && isKept(findingOf(ratios), before);
    const finding = findingOf(await measurePairs(stage, own, fastify, workload, isEnough));
    print(describe(workload.name, finding, before));
    return finding;
  };
  /** What V8 compiles, and where it puts it, differs from one start to the next by a few percent. */
  const startAnew = async (): Promise<void> => {
    for (const entrant of entrants) {
      await entrant.running!.stop();
      await stage.launch(entrant);
    }
  };

  if (accept) {
    const medians = new Map(guarded.map(({ name }) => [name, [] as number[]]));
    for (let start = 0; start < startsOfBaseline; start += 1) {
      if (start > 0) await startAnew();
      for (const workload of guarded) {
        const { median } = await measure(workload);
        if (Number.isNaN(median)) throw new Error('The machine is too busy for a baseline.');
        medians.get(workload.name)!.push(median);
      }
    }
    const ratios = Object.fromEntries(
      [...medians].map(([name, values]) => [name, Math.round(spreadOf(values).median * 100) / 100]),
    );
    baselines[machine] = { at: new Date().toISOString(), commit, ratios };
    writeFileSync(file, `${JSON.stringify(baselines, null, 2)}\n`);
    return true;
  }

  const lost: string[] = [];
  for (const workload of guarded) {
    const { name } = workload;
    const before = baseline?.[name];
    if (before === undefined) {
      await measure(workload);
    } else if (isLost(await measure(workload), before)) {
      print(`${name} seems to have lost: measuring again`);
      await startAnew();
      await measurePairs(stage, own, fastify, guarded[0], () => true);
      if (isLost(await measure(workload), before)) lost.push(name);
    }
  }
  for (const name of lost) {
    print(
      `LOST: \`${name}\` costs over ${lossMax * 100}% more CPU than the baseline. If that is the price of a duty: npm run bench -- --quick --accept`,
    );
  }
  return lost.length === 0;
}

/**
 * Ratios of neighbouring slices, which the noise of a machine affects alike. The gateway's CPU counts until its next slice begins, since
 * metering happens after the answers.
 */
async function measurePairs(
  stage: Stage,
  own: Entrant,
  fastify: Entrant,
  { name, gatewayRequests, fastifyRequests, warmUpSlices }: Guarded,
  isEnough: (ratios: number[]) => boolean,
): Promise<number[]> {
  const workload = workloads.find((one) => one.name === name)!;
  const run = (entrant: Entrant, requests: number) =>
    runLoad(stage, { ...loadOf(entrant, workload), seconds: 0, count: requests });
  let endMs = performance.now() + secondsMax.warmUp * 1_000;
  for (let slice = 0; slice < warmUpSlices; slice += 1) {
    if (performance.now() > endMs) return [];
    await run(own, gatewayRequests);
    // It has little code, and warms up sooner.
    if (slice % 4 === 0) await run(fastify, fastifyRequests);
  }
  const ratios: number[] = [];
  endMs = performance.now() + secondsMax.pairs * 1_000;
  while (ratios.length < pairs.max && !isEnough(ratios) && performance.now() < endMs) {
    const ownBeforeMs = exactCpuMsOfTree(own.running!.pid);
    await run(own, gatewayRequests);
    const fastifyBeforeMs = exactCpuMsOfTree(fastify.running!.pid);
    await run(fastify, fastifyRequests);
    const fastifyMs = (exactCpuMsOfTree(fastify.running!.pid) - fastifyBeforeMs) / fastifyRequests;
    const ownMs = (exactCpuMsOfTree(own.running!.pid) - ownBeforeMs) / gatewayRequests;
    ratios.push(ownMs / fastifyMs);
  }
  return ratios;
}

function describe(name: string, { median, low, high }: Finding, before: number | undefined): string {
  if (!Number.isFinite(high)) return `${name}: the machine is too busy to say`;
  const text = `${name}: ${median.toFixed(2)} × Fastify + undici dispatch (certainly ${low.toFixed(2)} to ${high.toFixed(2)})`;
  if (before === undefined) return text;
  const change = (median / before - 1) * 100;
  return `${text}, baseline ${before.toFixed(2)}, ${change >= 0 ? '+' : ''}${change.toFixed(0)}%`;
}
