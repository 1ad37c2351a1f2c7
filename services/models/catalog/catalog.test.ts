import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { CatalogSnapshotSchema } from '#gen/modelgateway/models/v1/catalog_pb.ts';
import { DeploymentStatus } from '#gen/modelgateway/models/v1/model_pb.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import type { Upstream } from '../upstream/upstream.ts';
import { Catalog } from './catalog.ts';

/** A catalog of one model, whose upstreams note that they were closed. */
function startCatalog() {
  const clock = new ManualClock(0);
  const closed: string[] = [];
  const warnings: unknown[] = [];
  const catalog = new Catalog({
    openUpstream: ({ id }) => ({ close: async () => void closed.push(id) }) as unknown as Upstream,
    metricsOf: () => ({ answered() {}, ended() {} }),
    clock,
    logger: { warn: (...line: unknown[]) => void warnings.push(line), error() {} },
  });
  const replace = (version: bigint, deploymentIds: string[]): void => {
    const deployments = deploymentIds.map((id) => ({ id, status: DeploymentStatus.RUNNING, settings: {} }));
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

test('a probe that broke off because its deployment was removed or changed is no failure of the deployment', () => {
  const { warnings, replace, model } = startCatalog();
  replace(1n, ['probed']);
  const [probed] = model().deployments;
  replace(2n, []);
  probed!.probed('a probe failed: the client is destroyed');
  expect(warnings).toEqual([]);
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
