import { AggregatorRegistry, Counter, Histogram, Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { CellCounter, CellHistogram, latencySeconds } from './metrics.ts';

const help = 'What is measured.';
const buckets = [0.1, 1, 5];
const observations = [0, 0.05, 0.1, 0.100001, 1, 3, 5, 5.1, 1e6];

describe('a histogram of cells', () => {
  it('is exported as prom-client exports its own', async () => {
    const [theirs, ours] = [new Registry(), new Registry()];
    const their = new Histogram({ name: 'h', help, buckets, labelNames: ['route', 'code'], registers: [theirs] });
    const our = new CellHistogram(ours, { name: 'h', help, buckets });
    for (const labels of [
      { route: '/a "quoted"', code: 'ok' },
      { route: '/b', code: 'internal' },
    ]) {
      const cell = our.cell(labels);
      for (const value of observations) {
        their.observe(labels, value);
        cell.observe(value);
      }
    }
    expect(samples(await ours.metrics())).toEqual(samples(await theirs.metrics()));
  });

  it('exists with zeros before anything is observed', async () => {
    const registry = new Registry();
    new CellHistogram(registry, { name: 'h', help, buckets }).cell();
    expect(await registry.metrics()).toContain('h_bucket{le="+Inf"} 0\nh_sum 0\nh_count 0\n');
  });

  it('tells calls of minutes from those that take the ten minutes they may', () => {
    expect(latencySeconds.filter((bound) => bound >= 60)).toEqual([60, 120, 300, 600]);
  });

  it('is added up over processes', async () => {
    const processes = [new Registry(), new Registry()];
    for (const registry of processes) {
      const cell = new CellHistogram(registry, { name: 'h', help, buckets }).cell({ route: '/a' });
      for (const value of observations) cell.observe(value);
    }
    const values = await Promise.all(processes.map((registry) => registry.getMetricsAsJSON()));
    const all = await AggregatorRegistry.aggregate(values).metrics();
    expect(all).toContain('h_bucket{le="0.1",route="/a"} 6\n');
    expect(all).toContain(`h_count{route="/a"} ${observations.length * 2}\n`);
  });
});

describe('a counter with cells', () => {
  it('adds up what its cells and others counted, once', async () => {
    const [theirs, ours] = [new Registry(), new Registry()];
    const their = new Counter({ name: 'c', help, labelNames: ['route'], registers: [theirs] });
    const our = new CellCounter({ name: 'c', help, labelNames: ['route'], registers: [ours] });
    const cell = our.cell({ route: '/a' });
    cell.inc();
    await ours.metrics();
    cell.inc(2);
    our.inc({ route: '/a' }, 4);
    their.inc({ route: '/a' }, 7);
    expect(await ours.metrics()).toBe(await theirs.metrics());
  });
});

/** The lines of an export, ignoring the order of lines and of labels. */
function samples(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.replace(/\{(.*)\}/, (_, labels: string) => `{${labels.split(',').sort().join(',')}}`))
    .sort();
}
