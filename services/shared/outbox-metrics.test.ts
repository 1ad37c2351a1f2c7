import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { logCollector } from '../../test/support/rpc-carriers.ts';
import { silentLogger as logger } from '../../test/support/silent-logger.ts';
import { showOutbox, type Waiting } from './outbox-metrics.ts';

test('a database that does not answer holds up no scrape, is asked once, and its last answer is kept', async () => {
  const registry = new Registry();
  const reads: PromiseWithResolvers<Waiting>[] = [];
  const read = () => {
    reads.push(Promise.withResolvers());
    return reads.at(-1)!.promise;
  };
  showOutbox(registry, { service: 'auth', outbox: 'mails', logger, read });
  const shown = async () => /^gateway_outbox_waiting\{.*\} (\d+)$/m.exec(await registry.metrics())?.[1];
  const first = shown();
  reads[0]!.resolve({ count: 2, oldestSeconds: 1 });
  expect(await first).toBe('2');
  expect([await shown(), await shown()]).toEqual(['2', '2']);
  expect(reads).toHaveLength(2);
  reads[1]!.resolve({ count: 3, oldestSeconds: 1 });
  const next = shown();
  reads.at(-1)!.resolve({ count: 3, oldestSeconds: 1 });
  expect(await next).toBe('3');
});

test('while a database is away its outbox is shown as unknown, and as it is once the database is back', async () => {
  const registry = new Registry();
  let read: () => Promise<Waiting> = async () => ({ count: 2, oldestSeconds: 90, refused: 1 });
  showOutbox(registry, { service: 'auth', outbox: 'mails', logger, read: () => read() });
  showOutbox(registry, {
    service: 'usage',
    outbox: 'charges',
    logger,
    read: async () => ({ count: 0, oldestSeconds: 0 }),
  });
  const shown = async () => (await registry.metrics()).match(/^gateway_outbox_.*"auth".* \d+$/gm)?.length ?? 0;
  const before = await shown();
  read = () => Promise.reject(new Error('away'));
  const away = [await shown(), await shown()];
  expect(await registry.metrics()).toContain('gateway_outbox_waiting{service="usage",outbox="charges"} 0');
  read = async () => ({ count: 3, oldestSeconds: 91, refused: 1 });
  expect([before, ...away, await shown()]).toEqual([3, 0, 0, 3]);
});

test('a database that is away is logged once a minute, not at each scrape', async () => {
  const registry = new Registry();
  const { logger, lines } = logCollector('info');
  const read = () => Promise.reject(new Error('away'));
  showOutbox(registry, { service: 'auth', outbox: 'mails', logger, read });
  for (let scrapes = 0; scrapes < 5; scrapes += 1) await registry.metrics();
  expect(lines).toMatchObject([{ level: 40, failures: 2, msg: expect.stringContaining('`mails` of auth failed') }]);
});
