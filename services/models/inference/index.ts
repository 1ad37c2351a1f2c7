import type { ServiceImpl } from '@connectrpc/connect';
import type { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { type TranscribeDeps, transcribe } from '../realtime/transcribe.ts';
import { admitJob } from './admit-job.ts';
import { getRateLimitState } from './get-rate-limit-state.ts';
import { getRetirement } from './get-retirement.ts';
import { type InvokeDeps, invoke } from './invoke.ts';

/** Model calls: admission, routing, metering. Stateless except for the catalog and the journal, so every edge carries it. */
export const inferenceService = (deps: InvokeDeps & TranscribeDeps): ServiceImpl<typeof InferenceService> => ({
  invoke: invoke(deps),
  admitJob: admitJob(deps),
  transcribe: transcribe(deps),
  getRetirement: getRetirement(deps),
  getRateLimitState: getRateLimitState(deps),
});
