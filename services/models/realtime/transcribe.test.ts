import { setImmediate as nextTurn } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { createHandlerContext } from '@connectrpc/connect';
import { expect, test } from 'vitest';
import { InferenceService, TranscribeRequestSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import { freeHold } from '../limits/hold.ts';
import { type TranscribeDeps, transcribe } from './transcribe.ts';

test('a session that was given up since its client does not read hears nothing more of it', async () => {
  const deps = {
    journal: { healthy: true },
    catalog: { requireSnapshot() {} },
    clock: { now: () => 0 },
    limiter: { admit: () => ({ release() {} }) },
    rateLimits: { limitsOf() {} },
    budgets: { hold: async () => freeHold },
  } as unknown as TranscribeDeps;
  let heard = 0;
  async function* requests() {
    yield create(TranscribeRequestSchema, { message: { case: 'start', value: {} } });
    // Each is answered with an error.
    for (; heard < 20_000; heard += 1) {
      yield create(TranscribeRequestSchema, { message: { case: 'eventJson', value: 'no JSON' } });
    }
  }
  const context = createHandlerContext({
    service: InferenceService,
    method: InferenceService.method.transcribe,
    protocolName: 'grpc',
    requestMethod: 'POST',
    url: 'http://localhost',
    contextValues: callerContext(serviceCaller('edge')),
  });
  const responses = transcribe(deps)(requests(), context);
  await responses.next();
  for (let before = -1; before !== heard; await nextTurn()) before = heard;
  expect(heard).toBeGreaterThanOrEqual(10_000);
  expect(heard).toBeLessThan(10_010);
  await responses.return(undefined);
});
