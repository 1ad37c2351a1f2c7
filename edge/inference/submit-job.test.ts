import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { CallerConstraintsSchema, InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { uuidv7 } from '#shared/ids.ts';
import { Role } from '#shared/rpc/caller.ts';
import { localClient } from '../../test/support/local-client.ts';
import { startRouteEdge } from '../../test/support/route-edge.ts';
import { logCollector } from '../../test/support/rpc-carriers.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { spooledForms } from '../http/uploads.ts';
import { transcriptionRoutes } from '../routes/v1/audio/transcriptions.ts';

test('a client that leaves while its upload becomes a job is no error of the gateway', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'uploads-'));
  const { logger, lines } = logCollector();
  const admitting = Promise.withResolvers<string>();
  const left = Promise.withResolvers<void>();
  const inference = localClient(
    InferenceService,
    {
      async admitJob({ call }) {
        admitting.resolve(call!.bodyFile);
        await left.promise;
        return { model: 'a-model' };
      },
    },
    logger,
  );
  const edge = await startRouteEdge(
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
      jobs: localClient(JobsService, {}, logger),
      credentials: {
        authenticate: () => ({
          ...{
            kind: 'session',
            tenantId: uuidv7(),
            userId: uuidv7(),
            role: Role.MEMBER,
            tenantSuspended: false,
            kid: '',
          },
          ...{ expiresAtMs: Number.POSITIVE_INFINITY, sessionId: uuidv7(), issuedAtMs: 0, operator: false },
          constraints: create(CallerConstraintsSchema),
        }),
        onEnded: () => () => {},
        isFollowed: () => true,
      },
      clock: systemClock,
      logger,
    },
  );
  const url = await edge.listen({ port: 0 });
  const headers = {
    authorization: 'Bearer x',
    'content-type': 'multipart/form-data; boundary=b',
    prefer: 'respond-async',
  };
  const upload = request(`${url}/v1/audio/transcriptions`, { method: 'POST', headers });
  upload.on('error', () => {});
  upload.end('--b\r\ncontent-disposition: form-data; name="model"\r\n\r\na-model\r\n--b--\r\n');
  const file = await admitting.promise;
  upload.destroy();
  await waitFor(() => !existsSync(file), { description: 'the removal of the upload' });
  left.resolve();
  await waitFor(() => lines.some(({ status }) => status !== undefined), { description: 'the end of the request' });
  expect(lines.filter(({ level }) => Number(level) > 30)).toEqual([]);
  await edge.close();
  rmSync(folder, { recursive: true });
});
