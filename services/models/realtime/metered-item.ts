import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { Clock } from '#shared/clock.ts';
import { errorCode } from '#shared/error-codes.ts';
import { ErrorReason, GatewayError, hasReason } from '#shared/errors.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import type { ServedModel } from '../catalog/catalog.ts';
import { type Measures, noMeasures, priceAt } from '../domain/price.ts';
import type { Budgets } from '../limits/budgets.ts';
import type { Hold } from '../limits/hold.ts';
import { MeteredCall, type MeteringJournal } from '../metering/metered-call.ts';

export type MeteringDeps = { journal: MeteringJournal; clock: Clock; budgets: Pick<Budgets, 'hold'> };

/** The endpoint under which sessions are metered, whichever prefix they came by. */
const endpoint = '/v1/realtime';

/** One utterance on its way through the journal. It is metered by itself, since a session may last an hour. */
export class MeteredItem {
  readonly call: MeteredCall;
  readonly #onEnd: (tokens: number) => void;
  #deltas = 0;

  /** `hold` is what budgets hold for it; `onEnd` is told how many tokens were used. */
  constructor(
    { journal, clock }: MeteringDeps,
    caller: Caller,
    model: ServedModel,
    hold: Hold,
    onEnd: (tokens: number) => void,
  ) {
    this.#onEnd = onEnd;
    this.call = new MeteredCall(
      journal,
      clock,
      {
        tenantId: caller.tenantId,
        userId: caller.userId,
        apiKeyId: caller.apiKeyId,
        sessionId: caller.sessionId,
        model: model.name,
        endpoint,
        operation: Operation.REALTIME_TRANSCRIPTION,
        streamed: true,
        requestId: caller.requestId,
        jobId: '',
        leaseIds: hold.leaseIds,
      },
      priceAt(model.prices, clock.now()),
      hold,
    );
  }

  /** A piece of the transcript is about to be sent: resolves once the journal knows of it. */
  async delta(): Promise<void> {
    this.call.firstByte();
    this.#deltas += 1;
    await this.call.progress(this.#deltas);
  }

  /** The transcript is whole. `reported` is what the upstream counted; null: it did not. */
  async complete(reported: Partial<Measures> | null, audioMs: number): Promise<void> {
    this.call.firstByte();
    const used = reported ?? { outputTokens: this.#deltas };
    await this.#end({ success: true, status: 200, errorCode: '' }, { ...used, audioMs: used.audioMs ?? audioMs });
  }

  /** It failed, or nobody waits for it any more: what was delivered is charged for. Does nothing for one that has ended. */
  async fail(error: unknown, audioMs: number): Promise<void> {
    if (this.call.ended) return;
    const isGone = hasReason(error, ErrorReason.CANCELLED);
    const code = error instanceof GatewayError ? errorCode(error) : 'internal_error';
    const used = this.#deltas === 0 ? {} : { outputTokens: this.#deltas, audioMs };
    await this.#end({ success: false, status: isGone ? 499 : 502, errorCode: code ?? 'upstream_error' }, used);
  }

  async #end(outcome: { success: boolean; status: number; errorCode: string }, used: Partial<Measures>): Promise<void> {
    const measures = { ...noMeasures, ...used };
    this.#onEnd(measures.inputTokens + measures.outputTokens);
    await this.call.end({ ...outcome, used: measures });
  }
}
