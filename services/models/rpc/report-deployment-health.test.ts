import { expect, test, vi } from 'vitest';
import { DeploymentStatus as Status } from '#gen/modelgateway/models/v1/model_pb.ts';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { uuidv7 } from '#shared/ids.ts';
import { callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import { localClient } from '../../../test/support/local-client.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { createTestDatabase } from '../../../test/support/postgres.ts';
import { silentLogger as logger } from '../../../test/support/silent-logger.ts';
import { openCatalogFeed } from '../catalog/catalog-feed.ts';
import { modelEntities } from '../db/catalog.entities.ts';
import { reportDeploymentHealth } from './report-deployment-health.ts';

const edge = { contextValues: callerContext(serviceCaller('inference')) };
const good = { successes: 9 };
const bad = { failures: 9, consecutiveFailures: 9, ejected: true, lastError: 'refused' };

test('a deployment that the edges of one replica cannot reach is Degraded, and serves, while those of another can', async () => {
  await using database = await createTestDatabase();
  const opened = { connection: database.url, logger };
  const service = await openServiceDatabase({ service: 'models', entities: modelEntities, ...opened });
  await using closing = new AsyncDisposableStack();
  closing.defer(() => service.close());
  const clock = new ManualClock(Date.now());
  const [modelId, deploymentId] = [uuidv7(), uuidv7()];
  await service.pool.query(`
    insert into models (id, name, display_name, owned_by, operations, visibility, created_at)
      values ('${modelId}', 'one', 'One', 'us', '{1}', 1, now());
    insert into deployments (id, model_id, base_url, upstream_model, settings, status, status_changed_at, created_at)
      values ('${deploymentId}', '${modelId}', 'http://one.test/v1', 'one', '{}', ${Status.RUNNING}, now(), now())`);
  const feed = await openCatalogFeed(service, database.url, logger);
  closing.defer(() => feed.close());
  const replica = () => {
    const implementation = {
      reportDeploymentHealth: reportDeploymentHealth({ database: service, feed, clock, logger }),
    };
    const models = localClient(ModelsService, implementation, logger);
    const edgeId = uuidv7();
    return async (report: object) => {
      await models.reportDeploymentHealth({ edgeId, deployments: [{ deploymentId, ...report }] }, edge);
      const { status, statusReason } = feed.snapshot.models[0]!.deployments[0]!;
      return [status, statusReason];
    };
  };
  const [cutOff, connected] = [replica(), replica()];
  expect(await cutOff(bad)).toEqual([Status.FAILED, 'refused']);
  expect(await connected(good)).toEqual([Status.DEGRADED, 'refused']);
  const { version } = feed.snapshot;
  const reading = vi.spyOn(feed, 'refresh');
  expect(await cutOff(bad)).toEqual([Status.DEGRADED, 'refused']);
  expect(await connected(good)).toEqual([Status.DEGRADED, 'refused']);
  expect(feed.snapshot.version).toBe(version);
  // What is told every second changes nothing: a catalog of thousands of models is not read again for it.
  expect(reading).not.toHaveBeenCalled();
  clock.advance(10_000);
  expect(await cutOff(good)).toEqual([Status.RUNNING, '']);
  expect(await connected(bad)).toEqual([Status.DEGRADED, 'refused']);
  expect(await cutOff(bad)).toEqual([Status.FAILED, 'refused']);
});
