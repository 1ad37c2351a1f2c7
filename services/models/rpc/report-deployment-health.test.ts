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

/** A catalog with a deployment that runs; each `replica` takes the reports of one edge and answers with the status that they lead to. */
async function startCatalog() {
  await using opening = new AsyncDisposableStack();
  const database = opening.use(await createTestDatabase());
  const opened = { connection: database.url, logger };
  const service = await openServiceDatabase({ service: 'models', entities: modelEntities, ...opened });
  opening.defer(() => service.close());
  const clock = new ManualClock(Date.now());
  const [modelId, deploymentId] = [uuidv7(), uuidv7()];
  await service.pool.query(`
    insert into models (id, name, display_name, owned_by, operations, visibility, created_at)
      values ('${modelId}', 'one', 'One', 'us', '{1}', 1, now());
    insert into deployments (id, model_id, base_url, upstream_model, settings, status, status_changed_at, created_at)
      values ('${deploymentId}', '${modelId}', 'http://one.test/v1', 'one', '{}', ${Status.RUNNING}, now(), now())`);
  const feed = await openCatalogFeed(service, database.url, logger);
  opening.defer(() => feed.close());
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
  const closing = opening.move();
  return { service, feed, clock, replica, [Symbol.asyncDispose]: () => closing.disposeAsync() };
}

test('a deployment that the edges of one replica cannot reach is Degraded, and serves, while those of another can', async () => {
  await using catalog = await startCatalog();
  const { feed, clock, replica } = catalog;
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

test('what was seen of the server that a deployment had before says nothing of the one that it has', async () => {
  await using catalog = await startCatalog();
  const { service, feed, clock, replica } = catalog;
  const report = replica();
  const move = (to: string, status: Status) =>
    service.pool.query(
      `update deployments set settings = '{"baseUrl": "${to}"}', status = ${status}, status_reason = ''`,
    );
  const heard = async () => {
    await service.pool.query('update catalog_version set version = version + 1');
    await feed.refresh();
  };
  expect(await report(good)).toEqual([Status.RUNNING, '']);
  await move('http://two.test/v1', Status.RUNNING);
  await report(bad);
  await heard();
  expect(feed.snapshot.models[0]!.deployments[0]).toMatchObject({ status: Status.RUNNING, statusReason: '' });
  await move('http://three.test/v1', Status.PENDING);
  await heard();
  expect(await report(good)).toEqual([Status.PENDING, '']);
  clock.advance(1_000);
  expect(await report(good)).toEqual([Status.RUNNING, '']);
});

test('a pending deployment that the edges of another replica have just reached goes on serving, though a report of a probe that failed before comes in; until then neither replica tells its own reason each time', async () => {
  await using catalog = await startCatalog();
  const { service, feed, clock, replica } = catalog;
  const [report, other] = [replica(), replica()];
  const status = (status: Status, reason = '') =>
    service.pool.query(`with changed as (update deployments set status = ${status}, status_reason = '${reason}')
      update catalog_version set version = version + 1`);
  await status(Status.PENDING, 'not probed yet');
  await feed.refresh();
  const reasons = new Set<unknown>();
  const failing = { failures: 1, consecutiveFailures: 1 };
  for (let second = 0; second < 15; second += 1) {
    reasons.add((await report({ ...failing, lastError: 'refused' }))[1]);
    // Its server says the same in other words each time.
    reasons.add((await other({ ...failing, lastError: `no secret in request ${second}` }))[1]);
    clock.advance(1_000);
  }
  expect([...reasons]).toEqual(['refused', 'no secret in request 0']);
  expect(await report({ ...failing, lastError: 'timed out' })).toEqual([Status.PENDING, 'timed out']);
  // Of this, the replica has not heard yet.
  await status(Status.RUNNING);
  await report({ failures: 1, consecutiveFailures: 1, lastError: 'refused' });
  await feed.refresh();
  expect(feed.snapshot.models[0]!.deployments[0]).toMatchObject({ status: Status.RUNNING, statusReason: '' });
});
