import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { startJobWorker } from '../../jobs/workers/start.ts';
import { type Base, drainMs } from '../base.ts';

/** Runs background jobs with the inference part of this process. */
export async function startWorker(
  { env, logger, registry, switchboard, closers, bodiesBytesMax }: Base,
  connection: DatabaseUrl,
): Promise<void> {
  const worker = await startJobWorker({
    connection,
    inference: switchboard.client('jobs', InferenceService),
    billing: switchboard.client('jobs', BillingService),
    keys: switchboard.client('jobs', KeysService),
    auth: switchboard.client('jobs', AuthService),
    registry,
    bodiesBytesMax,
    drainMs,
    clock: env.clock,
    logger: logger.child({ service: 'jobs' }),
  });
  closers.push(worker.close);
}
