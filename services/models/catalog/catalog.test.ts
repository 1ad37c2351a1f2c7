import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { expect, test } from 'vitest';
import { CatalogModelSchema, CatalogSnapshotSchema } from '#gen/modelgateway/models/v1/catalog_pb.ts';
import { type DeploymentSettingsSchema, DeploymentStatus } from '#gen/modelgateway/models/v1/model_pb.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { logCollector } from '../../../test/support/rpc-carriers.ts';
import { chooseDeployment } from '../domain/routing.ts';
import type { Upstream } from '../upstream/upstream.ts';
import { Catalog } from './catalog.ts';
import { publicModel } from './listing.ts';

/** A catalog of one model, whose upstreams note that they were closed. */
function startCatalog() {
  const clock = new ManualClock(0);
  const closed: string[] = [];
  const { logger, lines: warnings } = logCollector('warn');
  const catalog = new Catalog({
    openUpstream: ({ id }) => ({ close: async () => void closed.push(id) }) as unknown as Upstream,
    metricsOf: () => ({ answered() {}, ended() {} }),
    clock,
    logger,
  });
  const replace = (
    version: bigint,
    deploymentIds: string[],
    settings: MessageInitShape<typeof DeploymentSettingsSchema> = {},
  ): void => {
    const deployments = deploymentIds.map((id) => ({ id, status: DeploymentStatus.RUNNING, settings }));
    catalog.replace(create(CatalogSnapshotSchema, { version, models: [{ model: { name: 'm' }, deployments }] }));
  };
  const model = () => catalog.find('m')!;
  return { clock, closed, warnings, replace, model };
}

test('a snapshot older than the one in force changes nothing', () => {
  const { replace, model } = startCatalog();
  replace(2n, ['new']);
  replace(1n, ['old']);
  expect(model().deployments.map(({ id }) => id)).toEqual(['new']);
});

test('a removed deployment takes no more calls, and its connections are closed once those that it runs have ended', () => {
  const { closed, replace, model } = startCatalog();
  replace(1n, ['idle', 'busy']);
  const busy = model().deployments[1]!;
  const run = busy.start();
  replace(2n, []);
  expect([busy.available, closed]).toEqual([false, ['idle']]);
  run.end({ kind: 'good' });
  expect(closed).toEqual(['idle', 'busy']);
});

test('a lowered concurrency limit counts the calls that the server still runs from before the change', () => {
  const { replace, model } = startCatalog();
  const chosen = () => chooseDeployment(model().deployments, new Set());
  replace(1n, ['d'], { baseUrl: 'http://one.test/v1', concurrencyLimit: 2 });
  const runs = [chosen()!.start(), chosen()!.start()];
  replace(2n, ['d'], { baseUrl: 'http://one.test/v1', concurrencyLimit: 1 });
  expect(chosen()).toBeNull();
  runs[0]!.end({ kind: 'good' });
  expect(chosen()).toBeNull();
  runs[1]!.end({ kind: 'good' });
  const last = chosen()!.start();
  replace(3n, ['d'], { baseUrl: 'http://two.test/v1', concurrencyLimit: 1 });
  expect(chosen()?.inFlight).toBe(0);
  last.end({ kind: 'good' });
  expect(chosen()?.inFlight).toBe(0);
});

test('a deployment that is stopped and started has no more room than its running calls leave', () => {
  const { closed, replace, model } = startCatalog();
  const settings = { baseUrl: 'http://one.test/v1', concurrencyLimit: 1 };
  const chosen = () => chooseDeployment(model().deployments, new Set());
  replace(1n, ['d'], settings);
  const run = chosen()!.start();
  replace(2n, ['d'], { ...settings, enabled: false });
  replace(3n, ['d'], { ...settings, enabled: false, weight: 2 });
  expect(model().deployments).toEqual([]);
  replace(4n, ['d'], settings);
  expect(chosen()).toBeNull();
  run.end({ kind: 'good' });
  expect([chosen()?.isRetired, closed]).toEqual([false, ['d']]);
});

test.each(['was added', 'failed'])(
  'a deployment that %s while others served is then sent its share of the calls, and not all that it missed',
  (event) => {
    const { replace, model } = startCatalog();
    const idsOf = (calls: number): string[] =>
      Array.from({ length: calls }, () => {
        const deployment = chooseDeployment(model().deployments, new Set())!;
        deployment.start().end({ kind: 'good' });
        return deployment.id;
      });
    replace(1n, event === 'failed' ? ['steady', 'late'] : ['steady']);
    const [, late] = model().deployments;
    if (late !== undefined) late.status = DeploymentStatus.FAILED;
    expect(new Set(idsOf(100))).toEqual(new Set(['steady']));
    replace(2n, ['steady', 'late']);
    expect(idsOf(10).filter((id) => id === 'late')).toHaveLength(5);
  },
);

test('a probe that broke off because its deployment was removed or changed is no failure of the deployment', () => {
  const { warnings, replace, model } = startCatalog();
  replace(1n, ['probed']);
  const [probed] = model().deployments;
  replace(2n, []);
  probed!.probed('a probe failed: the client is destroyed');
  expect(warnings).toEqual([]);
});

test('a deployment that fails some of its calls is logged once for each cause, not for each of the calls', () => {
  const { warnings, replace, model } = startCatalog();
  replace(1n, ['flaky']);
  for (let calls = 0; calls < 50; calls += 1) {
    const message = calls % 10 === 9 ? 'reset' : 'upstream answered 500';
    model().deployments[0]!.start().end({ kind: 'bad', message });
    model().deployments[0]!.start().end({ kind: 'good' });
  }
  const line = { msg: 'a deployment failed', deployment: 'flaky' };
  expect(warnings).toMatchObject([
    { ...line, err: 'upstream answered 500' },
    { ...line, err: 'reset' },
  ]);
});

test('a change of the catalog neither gives further retries nor takes any', () => {
  const { replace, model } = startCatalog();
  replace(1n, []);
  while (model().retryBudget.withdraw());
  replace(2n, []);
  expect(model().retryBudget.withdraw()).toBe(false);
});

test('a deployment that asks to be spared is spared for half a minute at most', () => {
  const { clock, replace, model } = startCatalog();
  replace(1n, ['busy']);
  const [busy] = model().deployments;
  busy!.start().end({ kind: 'busy', retryAfterMs: 3_600_000 });
  clock.advance(29_999);
  expect(busy!.cooling).toBe(true);
  clock.advance(1);
  expect(busy!.cooling).toBe(false);
});

test('a shorter wait that a deployment asks for does not end a longer one that it asked for before', () => {
  const { clock, replace, model } = startCatalog();
  replace(1n, ['busy']);
  const [busy] = model().deployments;
  busy!.start().end({ kind: 'busy', retryAfterMs: 20_000 });
  busy!.start().end({ kind: 'busy', retryAfterMs: 1_000 });
  clock.advance(19_999);
  expect(busy!.cooling).toBe(true);
});

test('what was seen of an upstream holds after other settings changed, and for calls from before, but for no other upstream', () => {
  const { clock, replace, model } = startCatalog();
  const at = (host: string, weight: number, rest = {}) => ({ baseUrl: `http://${host}.test/v1`, weight, ...rest });
  replace(1n, ['d'], at('one', 1));
  const [before] = model().deployments;
  const early = before!.start();
  for (let failures = 1; failures <= 4; failures++) before!.start().end({ kind: 'bad', message: 'reset' });
  before!.start().end({ kind: 'busy', retryAfterMs: 20_000 });
  before!.refusedFields = new Set(['stream_options']);
  const seen = () => {
    const { available, cooling, refusedFields } = model().deployments[0]!;
    return { available, cooling, refused: [...refusedFields] };
  };
  replace(2n, ['d'], at('one', 2));
  expect(seen()).toEqual({ available: true, cooling: true, refused: ['stream_options'] });
  early.end({ kind: 'bad', message: 'reset' });
  expect(seen().available).toBe(false);
  replace(3n, ['d'], at('one', 3, { priority: 1, concurrencyLimit: 5, totalTimeoutMs: 9 }));
  expect(seen()).toEqual({ available: false, cooling: true, refused: ['stream_options'] });
  expect(model().deployments[0]!.takeHealth()).toMatchObject({ failures: 5, ejected: true, lastError: 'reset' });
  // A trial that began before a change still is the only one after it.
  clock.advance(1_000);
  const trial = model().deployments[0]!.start();
  replace(4n, ['d'], at('one', 4));
  expect(seen().available).toBe(false);
  trial.end({ kind: 'none' });
  expect(seen().available).toBe(true);
  const unseen = { available: true, cooling: false, refused: [] };
  const others = [
    at('two', 4),
    at('two', 4, { upstreamModel: 'other' }),
    at('two', 4, { upstreamModel: 'other', secretReference: 'env:UPSTREAM_OTHER' }),
  ];
  for (const [index, other] of others.entries()) {
    replace(BigInt(5 + index), ['d'], other);
    expect(seen()).toEqual(unseen);
    model().deployments[0]!.start().end({ kind: 'busy', retryAfterMs: 20_000 });
  }
});

test('no price is announced that another one, which applies already, has overtaken', () => {
  const nowMs = Date.parse('2100-01-01');
  const at = (seconds: number, createdSecondsBefore: number) => ({
    id: `at ${seconds}`,
    effectiveFrom: timestampFromMs(nowMs + seconds * 1_000),
    createdAt: timestampFromMs(nowMs + (seconds - createdSecondsBefore) * 1_000),
  });
  // The one at 20 was set to apply at once, by a clock that is ahead.
  const prices = [at(-60, 0), at(10, 60), at(20, 0), at(40, 60)];
  const shown = (count: number) => {
    const { price, nextPrice } = publicModel(
      create(CatalogModelSchema, { model: { name: 'm' }, prices: prices.slice(0, count) }),
      nowMs,
    );
    return [price?.id, nextPrice?.id];
  };
  expect(shown(2)).toEqual(['at -60', 'at 10']);
  expect(shown(3)).toEqual(['at 20', undefined]);
  expect(shown(4)).toEqual(['at 20', 'at 40']);
});
