import type { HandlerContext } from '@connectrpc/connect';
import type { TranscribeRequest, TranscribeResponse } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ErrorReason, gatewayError, invalidRequest } from '#shared/errors.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import { cannotMeter } from '../inference/admission.ts';
import type { RateLimitBook } from '../limits/rate-limit-book.ts';
import type { RateLimiter } from '../limits/rate-limiter.ts';
import type { SessionDeps } from './backend.ts';
import { ServerEvents } from './server-events.ts';
import { TranscriptionSession } from './transcription-session.ts';

export type TranscribeDeps = SessionDeps & { limiter: RateLimiter; rateLimits: Pick<RateLimitBook, 'limitsOf'> };

/**
 * InferenceService.Transcribe: one realtime session. Its first answer is `session.created`; by then, a model named in the start has been
 * admitted. An error ends the session; the edge turns it into an `error` event and a close code.
 */
export const transcribe = (deps: TranscribeDeps) =>
  async function* (
    requests: AsyncIterable<TranscribeRequest>,
    context: HandlerContext,
  ): AsyncGenerator<TranscribeResponse> {
    const caller = callerOf(context);
    const reader = requests[Symbol.asyncIterator]();
    const first = await reader.next();
    if (first.done || first.value.message.case !== 'start') {
      throw invalidRequest(undefined, 'The first message of a session must be its start.');
    }
    const start = first.value.message.value;
    if (!deps.journal.healthy) throw cannotMeter();
    // Otherwise a session that names its model later would open, and break at its first event.
    deps.catalog.requireSnapshot();

    const events = new ServerEvents();
    const over = new AbortController();
    const signal = AbortSignal.any([context.signal, over.signal, events.failed]);
    const session = new TranscriptionSession({ deps, caller, start, events, signal });
    // A session is one request; what it uses is known at its end.
    const rate = await deps.limiter.admit(caller, deps.rateLimits.limitsOf(caller.tenantId, start.constraints), 0);
    try {
      // A caller whose budget is used up is refused before the socket opens; the cost of each utterance is held as it comes.
      const held = await deps.budgets.hold(caller, start.constraints, 1n);
      await held.settle(0n);
    } catch (refusal) {
      rate.release(0);
      throw refusal;
    }
    const hearing = hear(reader, { session, events, signal });
    const onAbort = (): void => events.fail(gatewayError(ErrorReason.CANCELLED, 'The session was ended.'));
    context.signal.addEventListener('abort', onAbort, { once: true });
    try {
      events.emit(session.created());
      yield* events;
    } finally {
      context.signal.removeEventListener('abort', onAbort);
      over.abort();
      void reader.return?.();
      await hearing;
      await session.close();
      rate.release(session.tokensUsed);
    }
  };

/** Handles the client's events one by one, so that one that must wait holds back those after it; after the last the session ends. */
async function hear(
  reader: AsyncIterator<TranscribeRequest>,
  { session, events, signal }: { session: TranscriptionSession; events: ServerEvents; signal: AbortSignal },
): Promise<void> {
  try {
    while (!signal.aborted) {
      const { done, value } = await reader.next();
      if (done) break;
      const { message } = value;
      if (message.case === 'eventJson') await session.take(message.value);
      else if (message.case === 'constraints') await session.constrain(message.value);
    }
    await session.finish();
    events.close();
  } catch (error) {
    events.fail(error);
  }
}
