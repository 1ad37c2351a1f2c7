import { create } from '@bufbuild/protobuf';
import { afterEach, expect, test, vi } from 'vitest';
import { CatalogSnapshotSchema } from '#gen/modelgateway/models/v1/catalog_pb.ts';
import { DeploymentStatus } from '#gen/modelgateway/models/v1/model_pb.ts';
import { silentLogger } from '../../../test/support/keys.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { Catalog } from '../catalog/catalog.ts';
import type { Upstream } from '../upstream/upstream.ts';
import { watchHealth } from './watch-health.ts';

afterEach(() => void vi.useRealTimers());

/** How often each of many deployments is probed in a minute; the first of them are down. */
async function probesInAMinute({ down, up }: { down: number; up: number }) {
  vi.useFakeTimers();
  const clock = new ManualClock(0);
  const probes = new Map<string, number>();
  const catalog = new Catalog({
    openUpstream: ({ id }) => {
      const probe = async () => {
        probes.set(id, (probes.get(id) ?? 0) + 1);
        if (id.startsWith('down')) throw new Error('ECONNREFUSED');
      };
      return { probe, close: async () => {} } as unknown as Upstream;
    },
    metricsOf: () => ({ answered() {}, ended() {} }),
    clock,
    logger: { warn() {}, error() {} },
  });
  const deployments = [
    ...Array.from({ length: down }, (_, n) => ({ id: `down-${n}`, status: DeploymentStatus.FAILED, settings: {} })),
    ...Array.from({ length: up }, (_, n) => ({ id: `up-${n}`, status: DeploymentStatus.RUNNING, settings: {} })),
  ];
  catalog.replace(create(CatalogSnapshotSchema, { version: 1n, models: [{ model: { name: 'm' }, deployments }] }));
  const models = { reportDeploymentHealth: async () => ({}) as never };
  const watching = watchHealth({ catalog, models, clock, logger: silentLogger });
  for (let second = 0; second < 60; second++) {
    clock.advance(1_000);
    await vi.advanceTimersByTimeAsync(1_000);
  }
  await watching.close();
  const counts = (kind: string, length: number) => Array.from({ length }, (_, n) => probes.get(`${kind}-${n}`) ?? 0);
  return { ofDown: counts('down', down), ofUp: counts('up', up) };
}

test('every deployment is probed, however many there are and however many are down; those that are down more often', async () => {
  const few = await probesInAMinute({ down: 1, up: 1 });
  expect(few).toEqual({ ofDown: [30], ofUp: [6] });
  const { ofDown, ofUp } = await probesInAMinute({ down: 200, up: 400 });
  expect(Math.min(...ofUp)).toBeGreaterThanOrEqual(1);
  expect(Math.min(...ofDown)).toBeGreaterThanOrEqual(5);
});
