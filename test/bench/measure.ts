import type { Load, LoadResult } from './generator.ts';
import { cores, cpuMsOfTree, runnableMs, runnableMsOfThreads } from './machine.ts';
import type { Entrant, Stage } from './stage.ts';
import type { Workload } from './workloads.ts';

/** A round of one contender. */
type Round = {
  /** CPU of all its processes, per unit of the workload, in µs. */
  cpuUs: number;
  /** CPU of Postgres in the same time, per unit, in µs. */
  postgresUs: number;
  requests: number;
  /** Why the figures may not be printed. */
  refused: string | undefined;
};

/** If a thread had something to do for this part of the time, it was what the rest waited for. */
const fullShare = 0.85;

/** What the generator sends to an entrant. */
export const loadOf = ({ prepared, port }: Entrant, workload: Workload) => ({
  port,
  requests: workload.requests,
  headers: Object.entries(prepared.headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join(''),
  tokens: workload.manyKeys ? prepared.tokens! : [prepared.token],
  connections: workload.connections,
});

/** A wrong answer, or none at all: nothing measured with it may be printed. */
class WrongAnswer extends Error {}

/** Runs a load. @throws WrongAnswer unless every answer was right. */
export async function runLoad(stage: Stage, load: Load): Promise<LoadResult> {
  let result: LoadResult;
  try {
    result = await stage.generator.run(load);
  } catch (error) {
    throw new WrongAnswer((error as Error).message, { cause: error });
  }
  const { wrong, requests, wrongAnswer } = result;
  if (wrong > 0) {
    const statusLine = wrongAnswer.split('\r\n', 1)[0];
    throw new WrongAnswer(`${wrong} of ${requests} answers were wrong (${statusLine})`, { cause: wrongAnswer });
  }
  return result;
}

/** Discards all figures if the work throws a WrongAnswer. */
async function unlessWrong<Result>(work: () => Promise<Result>): Promise<Result | { refused: string }> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof WrongAnswer) return { refused: error.message };
    throw error;
  }
}

/** A closed loop for a while: what the work costs when there is always more of it. */
export async function runRound(
  stage: Stage,
  entrant: Entrant,
  workload: Workload,
  extent: { seconds: number; count?: number },
): Promise<Round> {
  const pid = entrant.running!.pid;
  const before = { cpu: cpuMsOfTree(pid), postgres: cpuMsOfTree(stage.postgresPid), threads: runnableMsOfThreads(pid) };
  const busy = watchSurroundings(stage);
  const result = await runLoad(stage, { ...loadOf(entrant, workload), ...extent });
  const units = result.requests * workload.unitsPerRequest;
  const after = runnableMsOfThreads(pid);

  const grown = [...after].map(([thread, ms]) => ms - (before.threads.get(thread) ?? ms));
  const share = Math.max(...grown) / result.elapsedMs;
  const surroundings = busy(result.elapsedMs);
  let refused: string | undefined;
  if (workload.paced) refused = surroundings;
  else if (share < fullShare) refused = surroundings ?? `only ${Math.round(share * 100)}% busy`;
  return {
    cpuUs: ((cpuMsOfTree(pid) - before.cpu) * 1_000) / units,
    postgresUs: ((cpuMsOfTree(stage.postgresPid) - before.postgres) * 1_000) / units,
    requests: result.requests,
    refused,
  };
}

/** Checks whether generator and upstream had time to spare, from now until the returned function is called. */
function watchSurroundings(stage: Stage): (elapsedMs: number) => string | undefined {
  const parts = [
    { name: 'generator', pid: stage.generator.pid },
    { name: 'upstream', pid: stage.upstream.pid },
  ].map((part) => ({ ...part, before: runnableMs(part.pid) }));
  return (elapsedMs) => {
    const full = parts.find(({ pid, before }) => (runnableMs(pid) - before) / elapsedMs > fullShare);
    return full && `the ${full.name} was full`;
  };
}

type OpenRound = Pick<LoadResult, 'latenciesMs' | 'firstBytesMs' | 'latenessMs' | 'overloaded'> & {
  cpuUs: number;
  refused: string | undefined;
};

/** An open loop at a rate; without an entrant, straight to the upstream. */
async function runOpenRound(
  stage: Stage,
  entrant: Entrant | undefined,
  workload: Workload,
  extent: { rate: number; seconds: number },
): Promise<OpenRound> {
  const target =
    entrant === undefined
      ? { port: stage.upstream.port, requests: workload.requests, headers: '', tokens: ['none'], connections: 64 }
      : loadOf(entrant, workload);
  const cpuBefore = entrant === undefined ? 0 : cpuMsOfTree(entrant.running!.pid);
  const busy = watchSurroundings(stage);
  const result = await runLoad(stage, { ...target, ...extent });
  const cpuMs = entrant === undefined ? 0 : cpuMsOfTree(entrant.running!.pid) - cpuBefore;
  return { ...result, cpuUs: (cpuMs * 1_000) / result.requests, refused: busy(result.elapsedMs) };
}

/** A figure from several rounds. */
export type Spread = { median: number; min: number; max: number };

export function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const median = sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
  return { median, min: sorted[0]!, max: sorted.at(-1)! };
}

/** The smallest value that is not below the given fraction of all. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)]!;
}

/** What a contender's work costs in one workload, or why that cannot be said. */
export type Cost =
  | { cpuUs: Spread; postgresUs: Spread; ratioToFirst: Spread; crowd: number; requests: number }
  | { refused: string };

/** How many idlers may share the core of a contender that is too fast for the generator. */
const crowds = [0, 1, 2];

/**
 * Rounds of all entrants in turn, so that other load on the machine affects them all alike; ratios compare neighbours. An entrant that the
 * generator cannot keep busy gets only a share of its core, with idlers next to it: its CPU time stays its own, and work arrives as at
 * saturation.
 */
export async function measureCosts(
  stage: Stage,
  entrants: readonly Entrant[],
  workload: Workload,
  extent: { rounds: number; seconds: number },
): Promise<Map<string, Cost>> {
  const runs = [];
  for (const entrant of entrants) {
    if (workload.manyKeys) await touchEveryKey(stage, entrant, workload);
    const found = await unlessWrong(() => findCrowd(stage, entrant, workload, extent.seconds));
    runs.push({ entrant, crowd: 0, ...found, rounds: [] as Round[] });
  }
  for (let round = 0; round < extent.rounds; round += 1) {
    for (const run of runs) {
      if (run.refused !== undefined) continue;
      await using _crowd = stage.crowd(run.crowd);
      const done = await unlessWrong(() => runRound(stage, run.entrant, workload, extent));
      if ('cpuUs' in done) run.rounds.push(done);
      else run.refused = done.refused;
    }
  }
  const first = runs[0]?.rounds ?? [];
  return new Map(
    runs.map(({ entrant, crowd, rounds, refused }): [string, Cost] => {
      const reason = refused ?? mostly(rounds.map((round) => round.refused));
      if (reason !== undefined) return [entrant.contender.name, { refused: reason }];
      return [
        entrant.contender.name,
        {
          cpuUs: spreadOf(rounds.map(({ cpuUs }) => cpuUs)),
          postgresUs: spreadOf(rounds.map(({ postgresUs }) => postgresUs)),
          ratioToFirst: spreadOf(rounds.map(({ cpuUs }, index) => cpuUs / (first[index]?.cpuUs ?? Number.NaN))),
          crowd,
          requests: rounds.reduce((sum, { requests }) => sum + requests, 0),
        },
      ];
    }),
  );
}

/**
 * V8 compiles hot code step by step. The cost of a small chat in this gateway falls by a third over the first 25,000, and by another sixth
 * up to some 100,000: contenders that run for longer than a minute are compared at their steady pace.
 */
const steadySeconds = 40;
/** For what is particular to a workload, in a process that is already warm. */
const warmUpSeconds = 12;

/** Runs an entrant until it has reached its steady pace. */
export const warmUp = (stage: Stage, entrant: Entrant, workload: Workload): Promise<Round> =>
  runRound(stage, entrant, workload, { seconds: steadySeconds });

/** The warm-up of a workload, which also finds out how large a share of its core keeps an entrant busy. */
async function findCrowd(
  stage: Stage,
  entrant: Entrant,
  workload: Workload,
  seconds: number,
): Promise<{ crowd: number; refused: string | undefined }> {
  await runRound(stage, entrant, workload, { seconds: Math.max(seconds, warmUpSeconds) });
  let refused: string | undefined;
  for (const crowd of workload.paced || cores === undefined ? [0] : crowds) {
    await using _crowd = stage.crowd(crowd);
    ({ refused } = await runRound(stage, entrant, workload, { seconds: Math.min(seconds, 1) }));
    if (refused === undefined) return { crowd, refused };
  }
  return { crowd: 0, refused };
}

/** The first use of a key is a look-up, which may be refused while too many are in progress; that is not what is measured. */
async function touchEveryKey(stage: Stage, entrant: Entrant, workload: Workload): Promise<void> {
  const load = { ...loadOf(entrant, workload), connections: 8, seconds: 0 };
  await stage.generator.run({ ...load, count: load.tokens.length });
}

/** The reason that holds in at least half of the rounds, if any. */
function mostly(reasons: readonly (string | undefined)[]): string | undefined {
  const given = reasons.filter((reason) => reason !== undefined);
  return given.length * 2 >= reasons.length ? (given[0] ?? 'no round') : undefined;
}

/** The latency that a contender adds, in milliseconds; the entry of `direct` is the upstream's own. */
export type Latency =
  | {
      p50: Spread | { refused: string };
      p99: Spread | { refused: string };
      /** Over all rounds together. */
      p999: number | { refused: string };
      cpuUs: Spread | undefined;
      samples: number;
    }
  | { refused: string };

/** Fewer answers than this say nothing about the slowest in a thousand. */
const samplesForP999 = 2_000;
/**
 * Latency is counted from when a request was due, so it includes the generator's own lateness, for all contenders and the upstream alike.
 * That is tolerated below half a millisecond or a quarter of the figure.
 */
const isLate = (latenessMs: number, latencyMs: number): boolean => latenessMs > Math.max(0.5, latencyMs / 4);
const late = { refused: 'the generator was late' };

/**
 * Latency at a rate, in turns with the same load straight to the upstream; the added latency is the difference within each pair. `of`
 * chooses between whole answers and the first byte of the body.
 */
export async function measureLatencies(
  stage: Stage,
  entrants: readonly Entrant[],
  workload: Workload,
  extent: { rounds: number; seconds: number; rate: number },
  of: 'latenciesMs' | 'firstBytesMs',
): Promise<Map<string, Latency>> {
  const runs = [undefined, ...entrants].map((entrant) => ({ entrant, rounds: [] as OpenRound[], refused: '' }));
  for (let round = 0; round < extent.rounds; round += 1) {
    for (const run of runs) {
      if (run.refused !== '') continue;
      using _punctual = stage.punctual();
      const done = await unlessWrong(() => runOpenRound(stage, run.entrant, workload, extent));
      if ('latenciesMs' in done) run.rounds.push(done);
      run.refused = 'overloaded' in done && done.overloaded ? 'overloaded' : 'latenciesMs' in done ? '' : done.refused;
    }
  }
  const [{ rounds: direct, refused: directRefused }] = runs as [(typeof runs)[number]];
  const slowest = (rounds: readonly OpenRound[], part: number, values: 'latenessMs' | typeof of): number =>
    percentile(
      rounds.flatMap((round) => round[values]),
      part,
    );
  // If the upstream's own latency is unknown, so is what a contender adds to it.
  const isHidden = (rounds: readonly OpenRound[], part: number): boolean =>
    [direct, rounds].some((either) => isLate(slowest(either, part, 'latenessMs'), slowest(either, part, of)));
  return new Map(
    runs.map(({ entrant, rounds, refused }): [string, Latency] => {
      const name = entrant?.contender.name ?? 'direct';
      const broken = refused || directRefused || mostly(rounds.map((round) => round.refused));
      if (broken) return [name, { refused: broken }];
      const added = (part: number): Spread | { refused: string } => {
        if (isHidden(rounds, part)) return late;
        return spreadOf(
          rounds.map(
            (round, index) => percentile(round[of], part) - (entrant ? percentile(direct[index]![of], part) : 0),
          ),
        );
      };
      const addedP999 = (): number | { refused: string } => {
        if (samples < samplesForP999) return { refused: 'too few answers' };
        if (isHidden(rounds, 0.999)) return late;
        return slowest(rounds, 0.999, of) - (entrant ? slowest(direct, 0.999, of) : 0);
      };
      const samples = rounds.reduce((sum, round) => sum + round[of].length, 0);
      return [
        name,
        {
          p50: added(0.5),
          p99: added(0.99),
          p999: addedP999(),
          cpuUs: entrant && spreadOf(rounds.map(({ cpuUs }) => cpuUs)),
          samples,
        },
      ];
    }),
  );
}
