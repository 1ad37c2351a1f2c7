import { create } from '@bufbuild/protobuf';
import { createValidator } from '@bufbuild/protovalidate';
import { afterEach, expect, test, vi } from 'vitest';
import { CatalogSnapshotSchema } from '#gen/modelgateway/models/v1/catalog_pb.ts';
import { DeploymentStatus } from '#gen/modelgateway/models/v1/model_pb.ts';
import {
  type ReportDeploymentHealthRequest,
  ReportDeploymentHealthRequestSchema,
} from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { uuidv7 } from '#shared/ids.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { Catalog } from '../catalog/catalog.ts';
import type { Upstream } from '../upstream/upstream.ts';
import { watchHealth } from './watch-health.ts';

afterEach(() => void vi.useRealTimers());

type Watched = { id: string; status: DeploymentStatus; baseUrl: string };

/** Watches deployments for some seconds, the servers of those whose id begins with `down` being down. */
async function watchFor(seconds: number, deployments: readonly Watched[]) {
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
    logger: silentLogger,
  });
  catalog.replace(
    create(CatalogSnapshotSchema, {
      version: 1n,
      models: [
        {
          model: { name: 'm' },
          deployments: deployments.map(({ id, status, baseUrl }) => ({ id, status, settings: { baseUrl } })),
        },
      ],
    }),
  );
  const reports: ReportDeploymentHealthRequest[] = [];
  const models: Parameters<typeof watchHealth>[0]['models'] = {
    async reportDeploymentHealth(request) {
      reports.push(create(ReportDeploymentHealthRequestSchema, request as never));
      return {} as never;
    },
  };
  const watching = watchHealth({ catalog, models, clock, logger: silentLogger });
  for (let second = 0; second < seconds; second++) {
    clock.advance(1_000);
    await vi.advanceTimersByTimeAsync(1_000);
  }
  await watching.close();
  return { probes, reports };
}

/** Deployments that each have a server of their own. */
const onOwnServers = (kind: string, status: DeploymentStatus, count: number): Watched[] =>
  Array.from({ length: count }, (_, n) => ({ id: `${kind}-${n}`, status, baseUrl: `http://${kind}-${n}.test/v1` }));

/** How often each of many deployments is probed in a minute; the first of them are down. */
async function probesInAMinute({ down, up }: { down: number; up: number }) {
  const deployments = [
    ...onOwnServers('down', DeploymentStatus.FAILED, down),
    ...onOwnServers('up', DeploymentStatus.RUNNING, up),
  ];
  const { probes } = await watchFor(60, deployments);
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

test('a server that hosts many models is asked for its model list once for all of them, and what it answers holds for each', async () => {
  const onOne = (kind: string, status: DeploymentStatus): Watched[] =>
    onOwnServers(kind, status, 300).map((deployment) => ({ ...deployment, baseUrl: `http://${kind}.test/v1` }));
  const { probes, reports } = await watchFor(60, [
    ...onOne('down', DeploymentStatus.FAILED),
    ...onOne('up', DeploymentStatus.RUNNING),
  ]);
  expect([...probes].toSorted()).toEqual([
    ['down-0', 30],
    ['up-0', 6],
  ]);
  const reported = reports.flatMap(({ deployments }) => deployments);
  const failed = new Set(reported.filter(({ failures }) => failures > 0n).map(({ deploymentId }) => deploymentId));
  const succeeded = new Set(reported.filter(({ successes }) => successes > 0n).map(({ deploymentId }) => deploymentId));
  expect([failed.size, succeeded.size]).toEqual([300, 300]);
});

test('reports are valid requests however many deployments there are, and leave none out', async () => {
  const pending = Array.from({ length: 12_000 }, (_, n) => ({
    id: uuidv7(),
    status: DeploymentStatus.PENDING,
    baseUrl: `http://${n % 20}.test/v1`,
  }));
  const { reports } = await watchFor(2, pending);
  const validator = createValidator();
  for (const report of reports) {
    expect(validator.validate(ReportDeploymentHealthRequestSchema, report).kind).toBe('valid');
  }
  const reported = reports.flatMap(({ deployments }) => deployments);
  const succeeded = new Set(reported.filter(({ successes }) => successes > 0n).map(({ deploymentId }) => deploymentId));
  expect(succeeded).toEqual(new Set(pending.map(({ id }) => id)));
});
