import { Counter, Gauge, Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { logCollector } from '../../test/support/rpc-carriers.ts';
import { metricsOfAll } from './metrics-of-all.ts';

test('a metric that cannot be read, as on a failing disk, is left out, and logged once; the others are shown', async () => {
  const registry = new Registry();
  let isBroken = true;
  new Gauge({
    name: 'of_the_disk',
    help: 'Read at each scrape.',
    registers: [registry],
    collect() {
      if (isBroken) throw new Error('EIO: i/o error, scandir');
    },
  });
  new Counter({ name: 'calls_total', help: 'In memory.', registers: [registry] }).inc();
  const { logger, lines } = logCollector('info');
  const metrics = metricsOfAll(registry, logger);
  for (let scrape = 0; scrape < 3; scrape += 1) {
    const text = await metrics.text();
    expect(text).toContain('calls_total 1\n');
    expect(text).not.toContain('of_the_disk');
  }
  isBroken = false;
  expect(await metrics.text()).toContain('of_the_disk 0\n');
  metrics.close();
  expect(lines).toMatchObject([
    { level: 40, msg: 'reading metrics failed; of_the_disk is left out' },
    { level: 30, msg: 'reading metrics works again' },
  ]);
});
