import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { timestampNow } from '@bufbuild/protobuf/wkt';
import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { JobSchema, JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { CallerConstraintsSchema, InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { Logger } from '#shared/logger.ts';
import { Role } from '#shared/rpc/caller.ts';
import { localClient } from '../../test/support/local-client.ts';
import { startRouteEdge } from '../../test/support/route-edge.ts';
import { logCollector } from '../../test/support/rpc-carriers.ts';
import { silentLogger } from '../../test/support/silent-logger.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { BodyRoom } from '../guards/body-room.ts';
import { createEdgeMetrics } from '../http/metrics.ts';
import { spooledForms } from '../http/uploads.ts';
import { transcriptionRoutes } from '../routes/v1/audio/transcriptions.ts';

/** An edge that takes uploads of one user for jobs. `admitJob` is told the file of each, and decides when it is admitted. */
async function jobEdge(logger: Logger, admitJob: (file: string) => Promise<void>) {
  const folder = mkdtempSync(join(tmpdir(), 'uploads-'));
  const inference = localClient(
    InferenceService,
    {
      async admitJob({ call }) {
        await admitJob(call!.bodyFile);
        return { model: 'a-model' };
      },
    },
    logger,
  );
  const job = create(JobSchema, {
    ...{ id: uuidv7(), status: JobStatus.QUEUED, operation: Operation.AUDIO_TRANSCRIPTIONS, model: 'a-model' },
    createdAt: timestampNow(),
  });
  const registry = new Registry();
  const userId = uuidv7();
  const app = await startRouteEdge(
    [
      (app, deps) => {
        app.register(async (forms) => {
          await spooledForms(forms, join(folder, 'uploads'));
          transcriptionRoutes(forms, deps);
        });
      },
    ],
    {
      inference,
      jobs: localClient(JobsService, { submit: async () => ({ job }) }, logger),
      credentials: {
        authenticate: () => ({
          ...{ kind: 'session', tenantId: uuidv7(), userId, role: Role.MEMBER, tenantSuspended: false, kid: '' },
          ...{ expiresAtMs: Number.POSITIVE_INFINITY, sessionId: uuidv7(), issuedAtMs: 0, operator: false },
          constraints: create(CallerConstraintsSchema),
        }),
        onEnded: () => () => {},
        isFollowed: () => true,
      },
      bodyRoom: new BodyRoom(128 * 1024),
      metrics: createEdgeMetrics(registry),
      clock: systemClock,
      logger,
    },
  );
  const url = `${await app.listen({ port: 0 })}/v1/audio/transcriptions`;
  return {
    url,
    registry,
    async close() {
      await app.close();
      rmSync(folder, { recursive: true });
    },
  };
}

const headers = {
  authorization: 'Bearer x',
  'content-type': 'multipart/form-data; boundary=b',
  prefer: 'respond-async',
};
const modelField = '--b\r\ncontent-disposition: form-data; name="model"\r\n\r\na-model\r\n';

test('a client that leaves while its upload becomes a job is no error of the gateway', async () => {
  const { logger, lines } = logCollector();
  const admitting = Promise.withResolvers<string>();
  const left = Promise.withResolvers<void>();
  const edge = await jobEdge(logger, (file) => {
    admitting.resolve(file);
    return left.promise;
  });
  const upload = request(edge.url, { method: 'POST', headers });
  upload.on('error', () => {});
  upload.end(`${modelField}--b--\r\n`);
  const file = await admitting.promise;
  upload.destroy();
  await waitFor(() => !existsSync(file), { description: 'the removal of the upload' });
  left.resolve();
  await waitFor(() => lines.some(({ status }) => status !== undefined), { description: 'the end of the request' });
  expect(lines.filter(({ level }) => Number(level) > 30)).toEqual([]);
  await edge.close();
});

test('an upload that becomes a job takes room in memory as a body does: without it, it is a 503 until others are jobs', async () => {
  const admitting = Promise.withResolvers<void>();
  const admitted = Promise.withResolvers<void>();
  const edge = await jobEdge(silentLogger, () => {
    admitting.resolve();
    return admitted.promise;
  });
  const sound = `--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n${'x'.repeat(80 * 1024)}\r\n`;
  const submit = () => fetch(edge.url, { method: 'POST', headers, body: `${modelField}${sound}--b--\r\n` });
  const first = submit();
  await admitting.promise;
  const second = await submit();
  expect([second.status, second.headers.get('retry-after')]).toEqual([503, '5']);
  expect(await edge.registry.metrics()).toContain('gateway_shed_requests_total{cause="memory"} 1');
  admitted.resolve();
  expect((await first).status).toBe(202);
  expect((await submit()).status).toBe(202);
  await edge.close();
});
