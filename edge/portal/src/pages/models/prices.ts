import type { Rates } from '../../api/types.ts';
import { formatUsdExact } from '../../format/number.ts';

const kinds: readonly (readonly [keyof Rates, string])[] = [
  ['input_per_million_tokens_usd', 'per million input tokens'],
  ['cached_input_per_million_tokens_usd', 'per million cached input tokens'],
  ['output_per_million_tokens_usd', 'per million output tokens'],
  ['per_image_usd', 'per image'],
  ['per_audio_second_usd', 'per second of audio'],
  ['per_million_characters_usd', 'per million characters'],
  ['per_request_usd', 'per request'],
];

/** The rates above zero, as amount and unit. */
export function priceLines(price: Rates | null): { amount: string; unit: string }[] {
  if (price === null) return [];
  return kinds.flatMap(([field, unit]) => {
    const rate = price[field];
    return rate > 0 ? [{ amount: formatUsdExact(rate), unit }] : [];
  });
}

/** The price in force at a time, of prices in the order in which they take effect; undefined before the first. */
export const priceAt = <Price extends { effective_from: string }>(
  prices: readonly Price[],
  ms: number,
): Price | undefined => prices.findLast(({ effective_from }) => Date.parse(effective_from) <= ms);

/** In short: `$0.15 in · $0.60 out` for tokens, which can wrap only between the two, otherwise the first rate. */
export function priceSummary(price: Rates | null): string {
  if (price === null) return 'No price';
  const tokens = [
    price.input_per_million_tokens_usd > 0 ? `${formatUsdExact(price.input_per_million_tokens_usd)}\u00a0in` : '',
    price.output_per_million_tokens_usd > 0 ? `${formatUsdExact(price.output_per_million_tokens_usd)}\u00a0out` : '',
  ].filter(Boolean);
  if (tokens.length > 0) return tokens.join('\u00a0· ');
  const first = priceLines(price)[0];
  return first === undefined ? 'Free' : `${first.amount} ${first.unit}`;
}
