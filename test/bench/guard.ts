import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { fastifyUndici } from './contenders/fastify-undici.ts';
import { gateway } from './contenders/gateway.ts';
import { type Finding, findingOf, isLost, lossMax } from './guard-rule.ts';
import { exactCpuMsOfTree } from './machine.ts';
import { loadOf, runLoad } from './measure.ts';
import { type Entrant, enterAll, type Stage } from './stage.ts';
import { workloads } from './workloads.ts';

/** results/baseline.json, by machine: CPU of the gateway over that of Fastify + undici without any duty, as medians of pairs of slices. */
type Baselines = Record<string, { at: string; commit: string; ratios: Record<string, number> }>;

/**
 * What is compared. A slice has as many requests as take about 0.4 s of CPU; a pair is a slice of each. Slices of the warm-up go before:
 * what the gateway costs falls until V8 has compiled what is hot, which takes some 25,000 small chats from its start.
 */
const guarded = [
  { name: 'small', gatewayRequests: 1_000, fastifyRequests: 3_000, warmUpSlices: 25 },
  { name: 'large', gatewayRequests: 400, fastifyRequests: 1_000, warmUpSlices: 6 },
  { name: 'paced', gatewayRequests: 40, fastifyRequests: 40, warmUpSlices: 4 },
  { name: 'bursts', gatewayRequests: 400, fastifyRequests: 1_200, warmUpSlices: 8 },
] as const;
type Guarded = (typeof guarded)[number];
const pairCount = 24;
/** On a busy machine: without a warm-up in this time nothing is said of a workload, and fewer pairs bound less. */
const secondsMax = { warmUp: 40, pairs: 20 };

/**
 * Compares what the gateway costs with the committed baseline of this machine; answers whether it holds. A workload that has become
 * dearer is measured once more with both started anew, and has to be dearer again. `accept` writes what was measured as the baseline.
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

  const ratios: Record<string, number> = {};
  const lost: string[] = [];
  for (const workload of guarded) {
    const { name } = workload;
    const before = baseline?.[name];
    const measure = async (): Promise<Finding> => {
      const finding = findingOf(await measurePairs(stage, own, fastify, workload));
      print(describe(name, finding, before));
      return finding;
    };
    let finding = await measure();
    if (before !== undefined && isLost(finding, before)) {
      print(`${name} seems to have lost: measuring again`);
      for (const entrant of entrants) {
        await entrant.running!.stop();
        await stage.launch(entrant);
      }
      await measurePairs(stage, own, fastify, guarded[0], 0);
      finding = await measure();
      if (isLost(finding, before)) lost.push(name);
    }
    ratios[name] = Math.round(finding.median * 100) / 100;
  }
  if (accept) {
    if (Object.values(ratios).some(Number.isNaN)) throw new Error('The machine is too busy for a baseline.');
    baselines[machine] = { at: new Date().toISOString(), commit, ratios };
    writeFileSync(file, `${JSON.stringify(baselines, null, 2)}\n`);
  }
  for (const name of lost) {
    print(
      `LOST: \`${name}\` costs over ${lossMax * 100}% more CPU than the baseline. If that is the price of a duty: npm run bench -- --quick --accept`,
    );
  }
  return lost.length === 0;
}

/**
 * Ratios of neighbouring slices, which the noise of a machine meets alike. The gateway's CPU counts until its next slice begins, since
 * metering is done after the answers.
 */
async function measurePairs(
  stage: Stage,
  own: Entrant,
  fastify: Entrant,
  { name, gatewayRequests, fastifyRequests, warmUpSlices }: Guarded,
  count = pairCount,
): Promise<number[]> {
  const workload = workloads.find((one) => one.name === name)!;
  const run = (entrant: Entrant, requests: number) =>
    runLoad(stage, { ...loadOf(entrant, workload), seconds: 0, count: requests });
  let endMs = performance.now() + secondsMax.warmUp * 1_000;
  for (let slice = 0; slice < warmUpSlices; slice += 1) {
    if (performance.now() > endMs) return [];
    await run(own, gatewayRequests);
    // It has little code, and is warm sooner.
    if (slice % 4 === 0) await run(fastify, fastifyRequests);
  }
  const ratios: number[] = [];
  endMs = performance.now() + secondsMax.pairs * 1_000;
  while (ratios.length < count && performance.now() < endMs) {
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
