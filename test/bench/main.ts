import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, loadavg, release, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import { cpuChart } from './chart.ts';
import type { Contender } from './contender.ts';
import { fastifyUndici } from './contenders/fastify-undici.ts';
import { gateway } from './contenders/gateway.ts';
import { litellm } from './contenders/litellm.ts';
import { nginx } from './contenders/nginx.ts';
import { portkey } from './contenders/portkey.ts';
import { flameGraph } from './flame-graph.ts';
import { guard } from './guard.ts';
import { cores, memoryMiBOfTree } from './machine.ts';
import { measureCosts, measureLatencies, runRound, spreadOf, warmUp } from './measure.ts';
import { markdown, type Results } from './report.ts';
import { isFlat, runSoak } from './soak.ts';
import { type Entrant, enterAll, openStage, type Stage } from './stage.ts';
import { workloads } from './workloads.ts';

const usage = `npm run bench -- [options]

  --quick               only compare the gateway's CPU with results/baseline.json, and fail on a loss of over 15%
  --quick --accept      write what was measured as the baseline of this machine
  --contenders a,b      of nginx, fastify, gateway, portkey, litellm; ratios are to the first
  --workloads a,b       of small, large, paced, bursts, embeddings, errors, keys; or none
  --rates a,b           requests a second of the latency rounds; or none
  --rounds n            of each contender in each workload (5)
  --seconds n           of a round (3)
  --starts n            of each contender (3)
  --keys n              in the workload of many keys (50,000)
  --soak n              small chats, one in twenty streamed, over which the gateway's memory has to become flat (0)
  --priority n          lets what is measured go before other work of the machine, 0 to 20, which needs root (0; --quick 10 as root)
  --profile             write a flame graph of the gateway under small chats
  --publish             put the tables into README.md, and everything into test/bench/results
`;

const contenders: readonly Contender[] = [nginx, fastifyUndici, gateway, portkey, litellm];
const root = fileURLToPath(new URL('../../', import.meta.url));
const resultsPath = 'test/bench/results';

const { values: flags } = parseFlags({
  quick: { type: 'boolean', default: false },
  accept: { type: 'boolean', default: false },
  contenders: { type: 'string', default: contenders.map(({ name }) => name).join(',') },
  workloads: { type: 'string', default: workloads.map(({ name }) => name).join(',') },
  rates: { type: 'string', default: '200,500,1000' },
  rounds: { type: 'string', default: '5' },
  seconds: { type: 'string', default: '3' },
  starts: { type: 'string', default: '3' },
  keys: { type: 'string', default: '50000' },
  soak: { type: 'string', default: '0' },
  priority: { type: 'string' },
  profile: { type: 'boolean', default: false },
  publish: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
});
const chosen = {
  contenders: choose(contenders, flags.contenders),
  workloads: choose(workloads, flags.workloads),
  rates: flags.rates === 'none' ? [] : flags.rates.split(',').map(Number),
};
for (const name of ['rounds', 'seconds', 'starts', 'keys', 'soak', 'priority'] as const) {
  if (Number.isNaN(Number(flags[name] ?? 0))) refuse(`--${name} takes a number.`);
}
if (chosen.rates.some(Number.isNaN)) refuse('--rates takes numbers, or none.');
const print = (line: string): void => void process.stdout.write(`${line}\n`);

/** The flags of the command line. */
function parseFlags<const Options extends ParseArgsOptionsConfig>(options: Options) {
  try {
    return parseArgs({ options });
  } catch (error) {
    return refuse((error as Error).message);
  }
}

/** The named items, in the order of the flag. */
function choose<Item extends { name: string }>(items: readonly Item[], names: string): Item[] {
  if (names === 'none') return [];
  return names.split(',').map((name) => {
    const item = items.find((one) => one.name === name);
    return item ?? refuse(`There is no ${name} among ${items.map((one) => one.name).join(', ')}.`);
  });
}

/** An invalid command line ends the process with one line and exit code 2, as in `npm run admin`. */
function refuse(message: string): never {
  process.stderr.write(`${message}\n`);
  process.exit(2);
}

async function main(): Promise<void> {
  if (flags.help) return print(usage);
  if (process.platform !== 'linux') throw new Error('The benchmark reads CPU time from /proc, which only Linux has.');
  // Processes that were started end with this one.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim();
  if (flags.quick) {
    // Most of the noise is other work of the machine: run by root, it gets a lower priority.
    const priority = process.getuid?.() === 0 ? '10' : '0';
    flags.priority ??= priority;
    flags.keys = '1';
  }
  const stage = await openStage({ keyCount: Number(flags.keys), nice: -Number(flags.priority ?? 0) });
  try {
    if (flags.quick) {
      const file = join(root, resultsPath, 'baseline.json');
      const holds = await guard(stage, { file, accept: flags.accept, commit, print });
      if (!holds) process.exitCode = 1;
    } else {
      await compare(stage, commit);
    }
  } finally {
    await stage.close();
  }
}

async function compare(stage: Stage, commit: string): Promise<void> {
  const [rounds, seconds] = [Number(flags.rounds), Number(flags.seconds)];
  const loadBefore = loadavg()[0]!;
  const { entrants, missing } = await enterAll(stage, chosen.contenders);
  for (const { contender, reason } of missing) print(`${contender.title} ${reason}`);
  if (entrants.length === 0) throw new Error('None of the contenders could be started.');
  await using _scraper = scrapeMetrics(entrants.find(({ contender }) => contender === gateway));

  const startsMs: Results['startsMs'] = {};
  const memoryMiB: Results['memoryMiB'] = {};
  for (const entrant of entrants) {
    const times = [entrant.running!.startMs];
    for (let start = 1; start < Number(flags.starts); start += 1) {
      await entrant.running!.stop();
      times.push((await stage.launch(entrant)).startMs);
    }
    startsMs[entrant.contender.name] = spreadOf(times);
  }
  const idle = new Map(entrants.map((entrant) => [entrant, memoryMiBOfTree(entrant.running!.pid)]));

  const small = workloads[0]!;
  if (chosen.workloads.length + chosen.rates.length > 0) {
    print('warming up …');
    for (const entrant of entrants) await warmUp(stage, entrant, small);
  }
  const requests = new Map<string, number>();
  const costsOf: Results['workloads'] = [];
  for (const workload of chosen.workloads) {
    const able = entrants.filter(({ prepared }) => !workload.manyKeys || prepared.tokens !== undefined);
    print(`${workload.title} …`);
    const costs = await measureCosts(stage, able, workload, { rounds, seconds });
    for (const [name, cost] of costs) {
      if (!('refused' in cost)) requests.set(name, (requests.get(name) ?? 0) + cost.requests);
    }
    costsOf.push({ name: workload.name, title: workload.title, unit: workload.unit, costs: Object.fromEntries(costs) });
  }

  const rates: Results['rates'] = [];
  for (const rate of chosen.rates) {
    print(`latency at ${rate} a second …`);
    const latencies = await measureLatencies(stage, entrants, small, { rounds, seconds, rate }, 'latenciesMs');
    rates.push({ rate, latencies: Object.fromEntries(latencies) });
  }
  let firstTokens: Results['firstTokens'];
  if (rates.length > 0) {
    print('time to first token …');
    // Enough streams for the slowest hundredth to have some answers, while the gateway has time to spare.
    const rate = 50;
    const paced = workloads.find(({ paced }) => paced)!;
    const latencies = await measureLatencies(stage, entrants, paced, { rounds, seconds, rate }, 'firstBytesMs');
    firstTokens = { rate, latencies: Object.fromEntries(latencies) };
  }

  for (const [entrant, idleMiB] of idle) {
    const { name } = entrant.contender;
    const after = memoryMiBOfTree(entrant.running!.pid);
    memoryMiB[name] = { idle: idleMiB, after, requests: requests.get(name) ?? 0 };
  }
  const own = entrants.find(({ contender }) => contender === gateway);
  let soak: Results['soak'];
  if (own !== undefined && Number(flags.soak) > 0) {
    print(`${flags.soak} small chats, one in twenty streamed …`);
    soak = await runSoak(stage, own, { requests: Number(flags.soak), print });
  }

  const results: Results = {
    at: new Date().toISOString(),
    commit,
    command: `npm run bench -- ${process.argv.slice(2).join(' ')}`.trim(),
    machine: {
      cpu: cpus()[0]!.model,
      cores: cpus().length,
      kernel: release(),
      node: process.version,
      pinned: cores !== undefined,
      loadBefore,
    },
    contenders: entrants.map(({ contender: { name, title, duties } }) => ({ name, title, duties })),
    missing: missing.map(({ contender: { title }, reason }) => ({ title, reason })),
    workloads: costsOf,
    rates,
    firstTokens,
    startsMs,
    memoryMiB,
    soak,
  };
  print(`\n${markdown(results, resultsPath)}`);
  if (soak !== undefined && !(isFlat(soak.memoryMiB) && isFlat(soak.heapMiB))) {
    print('MEMORY GROWS: it was not flat over the last half of the soak.');
    process.exitCode = 1;
  }
  if (flags.publish) publish(results);
  if (flags.profile && own !== undefined) await profile(stage, own, seconds, commit);
}

/** Each second, as Prometheus would. */
function scrapeMetrics(entrant: Entrant | undefined): AsyncDisposable {
  const timer = setInterval(() => {
    if (entrant === undefined) return;
    // Between two starts nothing answers.
    fetch(`http://127.0.0.1:${entrant.port}/metrics`).then(
      (answer) => answer.text(),
      () => {},
    );
  }, 1_000);
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
    },
  };
}

/** Marks around what --publish writes into README.md. */
const [publishedFrom, publishedTo] = [
  '<!-- npm run bench -- --publish: begin -->',
  '<!-- npm run bench -- --publish: end -->',
];

function publish(results: Results): void {
  const folder = join(root, resultsPath);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'latest.json'), `${JSON.stringify(results, null, 2)}\n`);
  writeFileSync(join(folder, 'latest.md'), markdown(results, '.'));
  writeFileSync(join(folder, 'cpu.svg'), cpuChart(results));
  const file = join(root, 'README.md');
  const readme = readFileSync(file, 'utf8');
  const [from, to] = [readme.indexOf(publishedFrom), readme.indexOf(publishedTo)];
  if (from < 0 || to < from) throw new Error('README.md has lost the marks between which the tables stand.');
  const text = `${publishedFrom}\n\n${markdown(results, resultsPath)}\n`;
  writeFileSync(file, readme.slice(0, from) + text + readme.slice(to));
}

/** Starts the gateway once more under Node's sampling profiler, and draws what it did under small chats. */
async function profile(stage: Stage, entrant: Entrant, seconds: number, commit: string): Promise<void> {
  const small = workloads[0]!;
  const folder = mkdtempSync(join(tmpdir(), 'gateway-bench-profile-'));
  await entrant.running!.stop();
  await stage.launch(entrant, { args: ['--cpu-prof', '--cpu-prof-interval', '500', '--cpu-prof-dir', folder] });
  await warmUp(stage, entrant, small);
  const fromUs = Number(process.hrtime.bigint() / 1_000n);
  await runRound(stage, entrant, small, { seconds });
  const toUs = Number(process.hrtime.bigint() / 1_000n);
  await entrant.running!.stop();
  const [file] = readdirSync(folder);
  const recorded = JSON.parse(readFileSync(join(folder, file!), 'utf8'));
  rmSync(folder, { recursive: true });
  const title = `Model Gateway under small chats, CPU time, ${new Date().toISOString().slice(0, 10)}, ${commit}`;
  const svg = flameGraph(recorded, { title, fromUs, toUs });
  writeFileSync(join(root, resultsPath, 'flame-graph.svg'), svg);
  print(`${resultsPath}/flame-graph.svg is written.`);
}

await main();
