import type { PriceRates } from '#gen/modelgateway/models/v1/model_pb.ts';
import { usdJson } from './money.ts';

/** Rates as the public API spells them; cached input costs as much as other input unless it has its own rate. */
export const ratesJson = (rates: PriceRates) => ({
  input_per_million_tokens_usd: usdJson(rates.inputPerMillionNanoUsd),
  cached_input_per_million_tokens_usd: usdJson(rates.cachedInputPerMillionNanoUsd ?? rates.inputPerMillionNanoUsd),
  output_per_million_tokens_usd: usdJson(rates.outputPerMillionNanoUsd),
  per_image_usd: usdJson(rates.perImageNanoUsd),
  per_audio_second_usd: usdJson(rates.perAudioSecondNanoUsd),
  per_million_characters_usd: usdJson(rates.perMillionCharactersNanoUsd),
  per_request_usd: usdJson(rates.perRequestNanoUsd),
});

/** The highest rates, in USD; PriceRates in model.proto has the same. */
export const ratesUsdMax = {
  input_per_million_tokens_usd: 1_000_000,
  cached_input_per_million_tokens_usd: 1_000_000,
  output_per_million_tokens_usd: 1_000_000,
  per_image_usd: 1_000,
  per_audio_second_usd: 1_000,
  per_million_characters_usd: 1_000_000,
  per_request_usd: 1_000,
} as const satisfies Readonly<Record<keyof ReturnType<typeof ratesJson>, number>>;
