import { PriceUnit } from '#gen/modelgateway/billing/v1/price_usage_pb.ts';
import type { MeteredUsage } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { PriceRates } from '#gen/modelgateway/models/v1/model_pb.ts';
import { smaller } from './amounts.ts';

/** One measure of a call with its rate and amount. */
export type PricedLine = { unit: PriceUnit; quantity: bigint; unitPriceNanoUsd: bigint; amountNanoUsd: bigint };

/** How many of the metered quantity make one unit of the price. */
export const quantityPerUnit = (unit: PriceUnit): bigint => {
  switch (unit) {
    case PriceUnit.MILLION_INPUT_TOKENS:
    case PriceUnit.MILLION_CACHED_INPUT_TOKENS:
    case PriceUnit.MILLION_OUTPUT_TOKENS:
    case PriceUnit.MILLION_CHARACTERS:
      return 1_000_000n;
    case PriceUnit.AUDIO_SECOND:
      return 1_000n;
    default:
      return 1n;
  }
};

/**
 * Splits the cost of a call into lines that add up to it exactly: each is rounded down, and the largest takes the rest. The cost is taken
 * as it was metered, which is capped (`costNanoUsdMax`): if the rates give more, the later lines get only what the earlier ones leave; if
 * they give less, the largest line takes the difference.
 */
export function pricedLines(rates: PriceRates, usage: MeteredUsage, costNanoUsd: bigint): PricedLine[] {
  const lines: PricedLine[] = [];
  let sum = 0n;
  const add = (unit: PriceUnit, quantity: bigint, unitPriceNanoUsd: bigint): void => {
    if (quantity === 0n || unitPriceNanoUsd === 0n) return;
    const amountNanoUsd = smaller((quantity * unitPriceNanoUsd) / quantityPerUnit(unit), costNanoUsd - sum);
    sum += amountNanoUsd;
    lines.push({ unit, quantity, unitPriceNanoUsd, amountNanoUsd });
  };
  const cached = smaller(usage.cachedInputTokens, usage.inputTokens);
  const cachedRate = rates.cachedInputPerMillionNanoUsd ?? rates.inputPerMillionNanoUsd;
  add(PriceUnit.MILLION_INPUT_TOKENS, usage.inputTokens - cached, rates.inputPerMillionNanoUsd);
  add(PriceUnit.MILLION_CACHED_INPUT_TOKENS, cached, cachedRate);
  add(PriceUnit.MILLION_OUTPUT_TOKENS, usage.outputTokens, rates.outputPerMillionNanoUsd);
  add(PriceUnit.IMAGE, usage.images, rates.perImageNanoUsd);
  add(PriceUnit.AUDIO_SECOND, usage.audioMs, rates.perAudioSecondNanoUsd);
  add(PriceUnit.MILLION_CHARACTERS, usage.characters, rates.perMillionCharactersNanoUsd);
  add(PriceUnit.REQUEST, 1n, rates.perRequestNanoUsd);
  if (lines.length === 0)
    return [{ unit: PriceUnit.REQUEST, quantity: 1n, unitPriceNanoUsd: 0n, amountNanoUsd: costNanoUsd }];
  const largest = lines.reduce((a, b) => (b.amountNanoUsd > a.amountNanoUsd ? b : a));
  largest.amountNanoUsd += costNanoUsd - sum;
  return lines;
}
