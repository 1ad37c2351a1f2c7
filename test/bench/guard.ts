import { readFileSync, writeFileSync } from 'node:fs';
import { fastifyUndici } from './contenders/fastify-undici.ts';
import { gateway } from './contenders/gateway.ts';
import { measureCosts } from './measure.ts';
import { enterAll, type Stage } from './stage.ts';
import { workloads } from './workloads.ts';

/** results/baseline.json: CPU of the gateway over that of Fastify + undici without any duty, in the same round. */
type Baseline = { at: string; commit: string; ratios: Record<string, number> };

const guarded = ['small', 'large', 'paced', 'bursts'];
/** The part by which a ratio may be above the baseline's. */
const lossMax = 0.15;
const extent = { rounds: 5, seconds: 1 };

/**
 * Compares what the gateway costs with the committed baseline; answers whether it holds. A workload that seems dearer is measured
 * once more, and the better of the two counts: noise only adds. `accept` writes what was measured as the new baseline.
 */
export async function guard(
  stage: Stage,
  options: { file: string; accept: boolean; commit: string; print: (line: string) => void },
): Promise<boolean> {
  const { file, accept, commit, print } = options;
  const { entrants, missing } = await enterAll(stage, [fastifyUndici, gateway]);
  if (missing.length > 0) throw new Error(`${missing[0]!.contender.title} ${missing[0]!.reason}`);
  const ratioOf = async (name: string): Promise<number> => {
    const workload = workloads.find((one) => one.name === name)!;
    const cost = (await measureCosts(stage, entrants, workload, extent)).get(gateway.name)!;
    return 'refused' in cost ? Number.NaN : cost.ratioToFirst.median;
  };

  const ratios: Record<string, number> = {};
  const baseline = accept ? undefined : (JSON.parse(readFileSync(file, 'utf8')) as Baseline);
  const lost: string[] = [];
  for (const name of guarded) {
    let ratio = await ratioOf(name);
    const allowed = baseline && baseline.ratios[name]! * (1 + lossMax);
    // A refused measurement (NaN) is repeated as well.
    if (allowed !== undefined && !(ratio <= allowed)) {
      print(`${name}: ${ratio.toFixed(2)} is above ${allowed.toFixed(2)}; measuring again`);
      const again = await ratioOf(name);
      ratio = Number.isNaN(ratio) ? again : Math.min(ratio, Number.isNaN(again) ? ratio : again);
    }
    ratios[name] = Math.round(ratio * 100) / 100;
    const before = baseline?.ratios[name];
    const change = before === undefined ? '' : `, baseline ${before.toFixed(2)}, ${percent(ratio / before - 1)}`;
    print(`${name}: ${ratio.toFixed(2)} × Fastify + undici dispatch${change}`);
    if (allowed !== undefined && !(ratio <= allowed)) lost.push(name);
  }
  if (accept) {
    const text = JSON.stringify({ at: new Date().toISOString(), commit, ratios } satisfies Baseline, null, 2);
    writeFileSync(file, `${text}\n`);
  }
  for (const name of lost) {
    print(
      `LOST: \`${name}\` costs over ${lossMax * 100}% more CPU than the baseline. If that is the price of a duty: npm run bench -- --accept`,
    );
  }
  return lost.length === 0;
}

const percent = (part: number): string => `${part >= 0 ? '+' : ''}${(part * 100).toFixed(0)}%`;
