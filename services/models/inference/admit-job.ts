import { create } from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import {
  type AdmitJobRequest,
  type AdmitJobResponse,
  AdmitJobResponseSchema,
} from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { invalidRequest } from '#shared/errors.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import { priceNow } from '../domain/price.ts';
import { admitModel, cannotMeter } from './admission.ts';
import { costRange } from './hold-budget.ts';
import { estimatedTokens, type InvokeDeps, refuseForeignFile } from './invoke.ts';
import { prepareCall } from './prepare-call.ts';

/** InferenceService.AdmitJob: the checks of Invoke for a call that is to run later. */
export const admitJob =
  (deps: InvokeDeps) =>
  async ({ call: request }: AdmitJobRequest, context: HandlerContext): Promise<AdmitJobResponse> => {
    const caller = callerOf(context);
    const { operation, constraints } = request!;
    refuseForeignFile(request!, context);
    const call = await prepareCall(request!, deps.tools);
    const nowMs = deps.clock.now();
    const { tenantId } = caller;
    const model = admitModel(deps.catalog, { name: call.model, operation, tenantId, constraints }, nowMs);
    const param = call.streamField ?? (call.streamed ? 'stream' : undefined);
    if (param !== undefined) {
      throw invalidRequest(param, `A background job cannot stream: leave out \`${param}\`.`, 'invalid_value');
    }
    if (!deps.journal.healthy) throw cannotMeter();
    const tokens = estimatedTokens(call, model);
    const rate = await deps.limiter.admit(caller, deps.rateLimits.limitsOf(tenantId, constraints), tokens);
    // It does not run now, but its tokens count as used: when it runs they are not counted again.
    rate.release(tokens);
    const price = priceNow(model.prices, nowMs);
    // Without a price nothing can be held, so a caller with any limit is refused here.
    if (price === null) await deps.budgets.hold(caller, constraints, null);
    const costs = price === null ? { costMaxNanoUsd: 0n, costMinNanoUsd: 0n } : costRange(call, model, price);
    return create(AdmitJobResponseSchema, {
      model: model.name,
      ...costs,
      rateLimit: rate.reading,
      retirement: model.publishedRetirement,
    });
  };
