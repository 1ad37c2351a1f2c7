import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { Price } from '#gen/modelgateway/models/v1/model_pb.ts';
import type { Retirement } from '#gen/modelgateway/models/v1/retirement_pb.ts';
import type { PriceVersion } from '../domain/price.ts';
import { type RetirementSchedule, successorOf } from '../domain/retirement.ts';

/** From when a price applies, as its message says. */
export const priceTimes = (price: Price) => ({
  effectiveFromMs: timestampMs(price.effectiveFrom!),
  appliesAtOnce: timestampMs(price.effectiveFrom!) <= timestampMs(price.createdAt!),
});

/** Reads a price from its message. */
export function priceVersion(price: Price): PriceVersion {
  const rates = price.rates!;
  return {
    id: price.id,
    ...priceTimes(price),
    inputPerMillionTokens: rates.inputPerMillionNanoUsd,
    cachedInputPerMillionTokens: rates.cachedInputPerMillionNanoUsd ?? rates.inputPerMillionNanoUsd,
    outputPerMillionTokens: rates.outputPerMillionNanoUsd,
    perImage: rates.perImageNanoUsd,
    perAudioSecond: rates.perAudioSecondNanoUsd,
    perMillionCharacters: rates.perMillionCharactersNanoUsd,
    perRequest: rates.perRequestNanoUsd,
  };
}

/** Reads a schedule from its message. */
export const retirementSchedule = (message: Retirement): RetirementSchedule => ({
  deprecatedAtMs: message.deprecatedAt === undefined ? 0 : timestampMs(message.deprecatedAt),
  sunsetAtMs: message.sunsetAt === undefined ? null : timestampMs(message.sunsetAt),
  successor: successorOf(message.replacementModelName, message.retirementNote),
});
