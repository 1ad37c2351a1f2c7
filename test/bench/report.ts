import type { Cost, Latency, Spread } from './measure.ts';
import { growthOfLastHalf, isFlat, type Soak } from './soak.ts';

/** Everything that a run measured, as kept in results/latest.json. */
export type Results = {
  at: string;
  commit: string;
  command: string;
  machine: { cpu: string; cores: number; kernel: string; node: string; pinned: boolean; loadBefore: number };
  contenders: { name: string; title: string; duties: string }[];
  missing: { title: string; reason: string }[];
  workloads: { name: string; title: string; unit: string; costs: Record<string, Cost> }[];
  rates: { rate: number; latencies: Record<string, Latency> }[];
  /** Time to the first byte of a stream's body. */
  firstTokens: { rate: number; latencies: Record<string, Latency> } | undefined;
  /** From the start of a contender that has run before to its first right answer. */
  startsMs: Record<string, Spread>;
  /** At rest after the start, and after all rounds. */
  memoryMiB: Record<string, { idle: number; after: number; requests: number }>;
  soak: Soak | undefined;
};

/** Three significant digits: more would be noise. */
export function digits(value: number): string {
  const rounded = Number(value.toPrecision(value < 1 ? 2 : 3));
  return Math.abs(rounded) >= 1000 ? rounded.toLocaleString('en-US') : String(rounded);
}
const range = ({ median, min, max }: Spread): string => `${digits(median)} (${digits(min)} to ${digits(max)})`;
const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
const table = (head: readonly string[], rows: readonly string[][]): string =>
  [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n');

/** The run as Markdown: the README's figures, and what is printed. */
export function markdown(results: Results, pathOfResults: string): string {
  const { contenders, missing, machine } = results;
  const titles = contenders.map(({ title }) => title);
  const perContender = (cell: (name: string) => string): string[] => contenders.map(({ name }) => cell(name));
  const parts = [
    `\`${results.command}\`, ${results.at.slice(0, 10)}, commit ${results.commit}, ${machine.cpu}, ${machine.cores} cores, Linux ${machine.kernel}, Node ${machine.node}. ${place(results)}`,
    [
      ...contenders.map(({ title, duties }) => `- **${title}**: ${duties === 'none' ? 'no duties' : duties}.`),
      ...missing.map(({ title, reason }) => `- **${title}** is not in the tables: ${reason.replace(/\.$/, '')}.`),
    ].join('\n'),
    `CPU time of all processes of a contender, µs per request or chunk: median (range) of the rounds, and as a multiple of ${titles[0]} in the same round.`,
    table(
      ['Workload', 'per', ...titles],
      results.workloads.map(({ title, unit, costs }) => [
        title,
        unit,
        ...perContender((name) => costCell(costs[name])),
      ]),
    ),
    `![CPU time per request and chunk](${pathOfResults}/cpu.svg)`,
  ];
  const small = results.workloads.find(({ name }) => name === 'small');
  if (small !== undefined) {
    const rates = perContender((name) => rateCell(small.costs[name]));
    parts.push(
      `Small chats for each second of CPU time on one core: ${titles.map((title, index) => `${title} ${rates[index]}`).join(', ')}.${postgresText(small.costs.gateway)}`,
    );
  }
  if (results.rates.length > 0) {
    const rows = results.rates.flatMap(({ rate, latencies }) =>
      (
        [
          ['p50', (l) => l.p50],
          ['p99', (l) => l.p99],
          ['p99.9', (l) => l.p999],
        ] as [string, LatencyPart][]
      ).map(([part, of]) => [
        `${digits(rate)}/s, ${part}`,
        latencyCell(latencies.direct, of),
        ...perContender((name) => latencyCell(latencies[name], of)),
      ]),
    );
    const first = results.firstTokens;
    if (first !== undefined) {
      for (const [part, of] of [
        ['p50', (l) => l.p50],
        ['p99', (l) => l.p99],
      ] as [string, LatencyPart][]) {
        rows.push([
          `first token, ${first.rate} streams/s, ${part}`,
          latencyCell(first.latencies.direct, of),
          ...perContender((name) => latencyCell(first.latencies[name], of)),
        ]);
      }
    }
    parts.push(
      'Latency in milliseconds, small chats from an open loop, counted from when each request was due: straight to the upstream, and what each contender adds to it.',
      table(['Rate', 'direct', ...titles.map((title) => `+ ${title}`)], rows),
    );
  }
  const { startsMs, memoryMiB } = results;
  parts.push(
    table(
      ['', ...titles],
      [
        ['start to first right answer, s', ...perContender((name) => secondsCell(startsMs[name]))],
        ['memory at rest, MiB', ...perContender((name) => (memoryMiB[name] ? digits(memoryMiB[name].idle) : '–'))],
        [
          'memory after the run, MiB (requests)',
          ...perContender((name) =>
            memoryMiB[name] ? `${digits(memoryMiB[name].after)} (${digits(memoryMiB[name].requests)})` : '–',
          ),
        ],
      ],
    ),
  );
  if (results.soak !== undefined) {
    const { requests, every, memoryMiB: memory, heapMiB: heap } = results.soak;
    parts.push(
      `Memory of the gateway over ${requests.toLocaleString('en-US')} small chats, one in twenty of them streamed, after each ${every.toLocaleString('en-US')}: ${soakText(memory)}; objects in use in JavaScript after a collection: ${soakText(heap)}.`,
    );
  }
  return `${parts.join('\n\n')}\n`;
}

function soakText(series: readonly number[]): string {
  const growth = growthOfLastHalf(series);
  const said = isFlat(series) ? 'flat' : 'NOT FLAT';
  return `${series.map(digits).join(', ')} MiB, ${said} (${growth >= 0 ? '+' : ''}${growth.toFixed(1)} MiB over the last half)`;
}

type Answered = Exclude<Latency, { refused: string }>;
type LatencyPart = (latency: Answered) => Spread | number | { refused: string };

const place = ({ machine }: Results): string =>
  `${machine.pinned ? 'Contenders on one core; upstream, generator and Postgres on the other.' : 'Nothing was pinned to a core.'} Load of the machine before the run: ${digits(machine.loadBefore)}.`;

function costCell(cost: Cost | undefined): string {
  if (cost === undefined) return '–';
  if ('refused' in cost) return `refused: ${cost.refused}`;
  const ratio = cost.ratioToFirst.median;
  // Nothing is given as a multiple of a discarded figure, which JSON stores as null.
  return Number.isFinite(ratio) ? `${range(cost.cpuUs)}, ×${digits(ratio)}` : range(cost.cpuUs);
}

const rateCell = (cost: Cost | undefined): string =>
  cost === undefined || 'refused' in cost ? 'not told' : digits(1e6 / cost.cpuUs.median);

const postgresText = (cost: Cost | undefined): string =>
  cost === undefined || 'refused' in cost
    ? ''
    : ` Beside the gateway, Postgres takes ${digits(cost.postgresUs.median)} µs a request for metering and charging.`;

function latencyCell(latency: Latency | undefined, of: LatencyPart): string {
  if (latency === undefined) return '–';
  if ('refused' in latency) return latency.refused;
  const value = of(latency);
  if (typeof value === 'number') return digits(value);
  return 'refused' in value ? value.refused : digits(value.median);
}

const secondsCell = (spread: Spread | undefined): string =>
  spread === undefined ? '–' : digits(spread.median / 1_000);
