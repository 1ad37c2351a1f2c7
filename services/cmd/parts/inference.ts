import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { type RpcService, rpcService } from '#shared/rpc/rpc-service.ts';
import { type StartedInference, startInference } from '../../models/start-inference.ts';
import { type Base, bodyReadMaxBytes } from '../base.ts';

/** Starts the inference part of this process; with serveServices, others can call its `rpc`. */
export async function startInferencePart(base: Base): Promise<StartedInference & { rpc: RpcService }> {
  const { env, logger, registry, switchboard, calls, connectUpstream, progress, closers, bodiesBytesMax } = base;
  const inference = await startInference({
    models: switchboard.client('inference', ModelsService),
    usage: switchboard.client('inference', UsageService),
    billing: switchboard.client('inference', BillingService),
    connectUpstream,
    dataDir: env.dataDir,
    journalSync: env.journalSync,
    clock: env.clock,
    logger,
    registry,
    bodiesBytesMax,
    onFatal: (err) => {
      logger.fatal({ err }, 'the metering journal cannot guarantee what it has written: ending the process');
      process.exit(70);
    },
  });
  closers.push(inference.close);
  progress.inference = inference;
  const rpc = rpcService(InferenceService, inference.implementation, {
    callers: ['edge', 'jobs'],
    validateLocally: false,
    readMaxBytes: bodyReadMaxBytes,
  });
  switchboard.add(rpc, calls);
  return { ...inference, rpc };
}
