import type { CallerConstraints } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import type { ServedModel } from '../catalog/catalog.ts';
import { type Measures, noMeasures, type PriceVersion, priceUsage } from '../domain/price.ts';
import type { Budgets } from '../limits/budgets.ts';
import type { Hold } from '../limits/hold.ts';
import type { PreparedCall } from './prepared-call.ts';
import { UsageBound } from './usage-bound.ts';

/** Estimates count four bytes to a token; no token is shorter than one byte, so this is the most it can be. */
const tokensPerEstimatedToken = 4;

/** What is held for the output of a model of which nothing is known, and the most that its prompt, or its output, may have, in tokens. */
const outputTokensUnknown = 32_768;
const contextWindowUnknown = 131_072;

/** An answer which is cut shorter than this for want of money is worth nothing. */
const outputTokensWorthIt = 256;

type ModelLimits = Pick<ServedModel, 'contextWindow' | 'maxOutputTokens'>;

const contextWindowOf = ({ contextWindow }: ModelLimits): number => contextWindow || contextWindowUnknown;

/** What a call can use at most, as far as something is held for it. */
function largestUse({ estimate }: Pick<PreparedCall, 'estimate'>, model: ModelLimits): Measures {
  const { inputTokens, outputTokensMax, prompts, answers, images, audioMs, characters } = estimate;
  const promptMax = inputTokens * tokensPerEstimatedToken;
  // A file is heard window by window, each of which fills the context by itself.
  const isBounded = model.contextWindow !== 0 && audioMs === 0;
  return {
    ...noMeasures,
    inputTokens: isBounded ? Math.min(promptMax, model.contextWindow * prompts) : promptMax,
    outputTokens: outputTokensMax ?? answers * (model.maxOutputTokens || model.contextWindow || outputTokensUnknown),
    images,
    audioMs,
    characters,
  };
}

/**
 * What a call can be charged for at most on the word of its upstream: what is held for it, but for the prompt, which may fill the model's
 * context whatever its text is, by images that stand elsewhere, and for what a model of unknown size reasons out of sight.
 */
export function usageBound(call: Pick<PreparedCall, 'estimate'>, model: ModelLimits): UsageBound {
  const most = largestUse(call, { ...model, maxOutputTokens: model.maxOutputTokens || contextWindowOf(model) });
  const context = contextWindowOf(model) * call.estimate.prompts;
  return new UsageBound({ ...most, inputTokens: Math.max(most.inputTokens, context) });
}

/** What a call can cost at most, and the least with which it is worth running; 0: only with all. */
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

/**
 * Holds the largest possible cost of a call (design.md, Snapshots). A call that names no max_tokens may run with less, down to a short
 * answer: near a limit its output is cut to what is left, instead of refusing it or going beyond.
 */
export function holdBudget(
  budgets: Pick<Budgets, 'hold'>,
  caller: Caller,
  constraints: CallerConstraints | undefined,
  call: PreparedCall,
  model: ServedModel,
  price: PriceVersion | null,
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

/** Cuts a call's output to what its hold allows, where it names no limit of its own. */
export function limitToHold(
  call: PreparedCall,
  model: ServedModel,
  price: PriceVersion,
  { costAllowedNanoUsd: allowed }: Pick<Hold, 'costAllowedNanoUsd'>,
): void {
  if (allowed === null || call.limitOutputTokens === undefined || price.outputPerMillionTokens === 0n) return;
  const most = largestUse(call, model);
  if (allowed >= largestCost(price, most)) return;
  const affordable = affordableTokens(price, most, allowed);
  call.limitOutputTokens(Math.max(outputTokensWorthIt, Math.floor(affordable / call.estimate.answers)));
}

/** What the use costs at most: how much of the prompt is cached is known afterwards only. */
function largestCost(price: PriceVersion, used: Measures): bigint {
  const isCachedDearer = price.cachedInputPerMillionTokens > price.inputPerMillionTokens;
  return priceUsage(price, { ...used, cachedInputTokens: isCachedDearer ? used.inputTokens : 0 });
}

/** Output tokens for which an amount is enough, the prompt paid. */
function affordableTokens(price: PriceVersion, most: Measures, amountNanoUsd: bigint): number {
  const left = amountNanoUsd - largestCost(price, { ...most, outputTokens: 0 });
  return left <= 0n ? 0 : Number((left * 1_000_000n) / price.outputPerMillionTokens);
}
