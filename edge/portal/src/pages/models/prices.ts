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

type Times = { effective_from: string; created_at: string };

/** Whether a price applies at a time. One set to apply at once does, whatever a computer's clock says: learnTime leaves it up to a minute. */
export const hasBegun = ({ effective_from, created_at }: Times, ms: number): boolean =>
  effective_from <= created_at || Date.parse(effective_from) <= ms;

/** The price in force at a time, of prices in the order in which they take effect; undefined before the first. */
export const priceAt = <Price extends Times>(prices: readonly Price[], ms: number): Price | undefined =>
  prices.findLast((price) => hasBegun(price, ms));

/**
 * In short: for tokens `$0.15 in · $0.60 out`, which can wrap only between the two, otherwise the first rate; and what it is for, with a
 * word on further rates.
 */
export function priceSummary(price: Rates | null): { amount: string; unit?: string } {
  if (price === null) return { amount: 'No price' };
  const tokens = [
    price.input_per_million_tokens_usd > 0 ? `${formatUsdExact(price.input_per_million_tokens_usd)}\u00a0in` : '',
    price.output_per_million_tokens_usd > 0 ? `${formatUsdExact(price.output_per_million_tokens_usd)}\u00a0out` : '',
  ].filter(Boolean);
  const [first, ...further] = priceLines(price).filter(({ unit }) => tokens.length === 0 || !unit.endsWith('tokens'));
  if (tokens.length > 0) {
    const more = first === undefined ? '' : ', and more';
    return { amount: tokens.join('\u00a0· '), unit: `per million tokens${more}` };
  }
  if (first === undefined) return { amount: 'Free' };
  return { ...first, unit: `${first.unit}${further.length === 0 ? '' : ', and more'}` };
}
