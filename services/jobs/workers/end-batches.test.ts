import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { ErrorDetailSchema } from '#gen/modelgateway/common/v1/error_pb.ts';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { silent } from '../fixtures/test-queue.ts';
import { createEndBatches } from './end-batches.ts';

test('an answer is given up once its lease has long lapsed, so that a worker can end though the database stays away', async () => {
  let waitedMs = 0;
  let tries = 0;
  const away = async () => {
    tries += 1;
    throw gatewayError(ErrorReason.OVERLOADED, 'away');
  };
  const ends = createEndBatches({
    database: { query: away, pool: {} as never },
    shiftMs: () => 0,
    logger: silent,
    delay: async (ms) => {
      waitedMs += ms;
    },
  });
  const job = { tenantId: '', id: '', fence: 1n } as never;
  expect(await ends.end(job, { status: JobStatus.FAILED, error: create(ErrorDetailSchema) })).toBe(false);
  expect(tries).toBeGreaterThan(1);
  expect(waitedMs).toBeGreaterThan(29_000);
  expect(waitedMs).toBeLessThan(60_000);
});
