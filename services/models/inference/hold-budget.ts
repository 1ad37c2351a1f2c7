import type { CallerConstraints } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import type { ServedModel } from '../catalog/catalog.ts';
import { type Measures, noMeasures, type PriceVersion, priceUsage } from '../domain/price.ts';
import type { Budgets } from '../limits/budgets.ts';
import type { Hold } from '../limits/hold.ts';
import type { PreparedCall } from './prepared-call.ts';
import { UsageBound } from './usage-bound.ts';

/** Estimates assume four bytes per token; no token is shorter than one byte, so the true number is at most this many times larger. */
const tokensPerEstimatedToken = 4;

/** For a model of unknown size, in tokens: what is held for its output, and the most that its prompt or output can have. */
export const outputTokensUnknown = 32_768;
const contextWindowUnknown = 131_072;

/** An answer cut shorter than this for lack of money is not worth its price. */
const outputTokensWorthIt = 256;

type ModelLimits = Pick<ServedModel, 'contextWindow' | 'maxOutputTokens'>;

/** What a prompt of this many tokens leaves of a known context for its answer; not positive if nothing. */
const contextLeft = ({ contextWindow }: ModelLimits, promptTokens: number): number =>
  (contextWindow || Number.POSITIVE_INFINITY) - promptTokens;

const contextWindowOf = ({ contextWindow }: ModelLimits): number => contextWindow || contextWindowUnknown;

/** The most that a call can use, as far as budgets hold something for it. */
function largestUse({ estimate }: Pick<PreparedCall, 'estimate'>, model: ModelLimits): Measures {
  const { inputTokens, mediaBytes, outputTokensMax, prompts, answers, images, heard, characters } = estimate;
  if (heard !== null) return { ...noMeasures, ...heard };
  const mediaMax = Math.min(mediaBytes, contextWindowOf(model) * prompts);
  const promptMax = inputTokens * tokensPerEstimatedToken + mediaMax;
  return {
    ...noMeasures,
    inputTokens: model.contextWindow === 0 ? promptMax : Math.min(promptMax, model.contextWindow * prompts),
    outputTokens: outputTokensMax ?? answers * (model.maxOutputTokens || model.contextWindow || outputTokensUnknown),
    images,
    characters,
  };
}

/**
 * The most that a call can be charged on its upstream's word. This is what is held for it, with three exceptions: the prompt may fill the
 * model's context, however short it is, since its images may be elsewhere; a model of unknown size may reason out of sight, or read long
 * media; and how many tokens an image takes is its model's business.
 */
export function usageBound(call: Pick<PreparedCall, 'estimate'>, model: ModelLimits): UsageBound {
  const most = largestUse(call, { ...model, maxOutputTokens: model.maxOutputTokens || contextWindowOf(model) });
  const { inputTokens, outputTokensMax, mediaBytes, prompts, images } = call.estimate;
  const promptMax = model.contextWindow === 0 ? inputTokens * tokensPerEstimatedToken + mediaBytes : most.inputTokens;
  const max = {
    ...most,
    inputTokens: Math.max(promptMax, contextWindowOf(model) * prompts),
    outputTokens: Math.max(most.outputTokens, images * (model.maxOutputTokens || contextWindowOf(model))),
  };
  return new UsageBound(max, outputTokensMax);
}

/** The most that a call can cost, and the least with which it is worth running; 0: only with all of it. */
export function costRange(
  call: Pick<PreparedCall, 'estimate' | 'limitOutputTokens'>,
  model: ModelLimits,
  price: PriceVersion,
): { costMaxNanoUsd: bigint; costMinNanoUsd: bigint } {
  const most = largestUse(call, model);
  const costMaxNanoUsd = largestCost(price, most);
  if (call.limitOutputTokens === undefined || price.outputPerMillionTokens === 0n) {
    return { costMaxNanoUsd, costMinNanoUsd: 0n };
  }
  const worthIt = Math.min(most.outputTokens, outputTokensWorthIt * call.estimate.answers);
  return { costMaxNanoUsd, costMinNanoUsd: largestCost(price, { ...most, outputTokens: worthIt }) };
}

/** A call that budgets are to hold for. */
export type HoldAsked = {
  caller: Caller;
  constraints: CallerConstraints | undefined;
  call: PreparedCall;
  model: ServedModel;
  price: PriceVersion | null;
};

/**
 * Holds the largest possible cost of a call (design.md, Snapshots). A call without max_tokens may run with less, down to a short answer:
 * near a limit its output is cut to what is left, instead of refusing it or exceeding the limit.
 */
export function holdBudget(
  budgets: Pick<Budgets, 'hold'>,
  { caller, constraints, call, model, price }: HoldAsked,
  monotonicMs: number,
): Hold | Promise<Hold> {
  if (price === null) return budgets.hold(caller, constraints, null, 0n, monotonicMs);
  const { costMaxNanoUsd, costMinNanoUsd } = costRange(call, model, price);
  const holding = budgets.hold(caller, constraints, costMaxNanoUsd, costMinNanoUsd, monotonicMs);
  if (!(holding instanceof Promise)) return holding;
  return holding.then((hold) => {
    limitToHold(call, model, price, hold);
    return hold;
  });
}

/**
 * Cuts a call's output to what its hold allows, if the request sets no limit itself, and to what the prompt leaves of the context: vLLM, for
 * one, refuses a limit above that.
 */
export function limitToHold(
  call: Pick<PreparedCall, 'estimate' | 'limitOutputTokens'>,
  model: ModelLimits,
  price: PriceVersion,
  { costAllowedNanoUsd: allowed }: Pick<Hold, 'costAllowedNanoUsd'>,
): void {
  if (allowed === null || call.limitOutputTokens === undefined || price.outputPerMillionTokens === 0n) return;
  const most = largestUse(call, model);
  if (allowed >= largestCost(price, most)) return;
  const { inputTokens, prompts, answers } = call.estimate;
  const affordable = Math.floor(affordableTokens(price, most, allowed) / answers);
  const left = contextLeft(model, Math.ceil(inputTokens / prompts));
  call.limitOutputTokens(Math.max(outputTokensWorthIt, Math.min(affordable, left)));
}

/** The most that this use can cost: how much of the prompt is cached is known only afterwards. */
function largestCost(price: PriceVersion, used: Measures): bigint {
  const isCachedDearer = price.cachedInputPerMillionTokens > price.inputPerMillionTokens;
  return priceUsage(price, { ...used, cachedInputTokens: isCachedDearer ? used.inputTokens : 0 });
}

/** The number of output tokens that an amount pays for, besides the prompt. */
function affordableTokens(price: PriceVersion, most: Measures, amountNanoUsd: bigint): number {
  const left = amountNanoUsd - largestCost(price, { ...most, outputTokens: 0 });
  return left <= 0n ? 0 : Number((left * 1_000_000n) / price.outputPerMillionTokens);
}
