const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });
const oneDigit = new Intl.NumberFormat('en-US', { maximumFractionDigits: 1 });
const plain = new Intl.NumberFormat('en-US', { maximumFractionDigits: 9, useGrouping: false });
/** By the most decimals that each writes. */
const usdFormats = Array.from(
  { length: 10 },
  (_, digits) =>
    new Intl.NumberFormat('en-US', {
      style: 'currency',
      currency: 'USD',
      minimumFractionDigits: 2,
      maximumFractionDigits: Math.max(2, digits),
      // No minus before zero.
      signDisplay: 'negative',
    }),
);
const allDigits = new Intl.NumberFormat('en-US', { maximumFractionDigits: 9 });

export const formatCount = (value: number): string => whole.format(value);

/** With every digit: a dozen tokens are millionths of the priced unit. */
export const formatQuantity = (value: number): string => allDigits.format(value);

/** As people type it and programs read it: with every digit, and neither separators nor an exponent. */
export const plainNumber = (value: number): string => plain.format(value);

/** A value as the API spells it: its amounts have no exponent. */
export const jsonText = (value: unknown): string =>
  typeof value === 'number' ? plainNumber(value) : JSON.stringify(value);

/** 1,234 stays; 12,345 becomes 12.3K. For tiles and axes; show the exact number in a title. */
export const formatCompact = (value: number): string =>
  Math.abs(value) < 10_000 ? whole.format(value) : compact.format(value);

/** A rate: 0.4 and 9.5 keep one decimal, 12.3 becomes 12. */
export const formatRate = (value: number): string => (value < 10 ? oneDigit.format(value) : formatCompact(value));

/**
 * A sum in USD with cents, where it need not add up to anything. An amount below a cent gets as many decimals as it takes to show two
 * significant digits: $1,234.50, $0.0042, $0.000012.
 */
export function formatUsd(value: number): string {
  const size = Math.abs(value);
  let digits = 2;
  if (size > 0 && size < 1) digits = Math.min(9, Math.max(2, 1 - Math.floor(Math.log10(size))));
  return usdText(value, digits);
}

/** An amount for an axis: from ten thousand dollars on, like $1.2M. */
export const formatUsdCompact = (value: number): string =>
  value < 10_000 ? formatUsd(value) : `$${compact.format(value)}`;

/** With every digit down to the nano-USD: for prices, limits and whatever else somebody has set. */
export const formatUsdExact = (value: number): string => usdText(value, 9);

const usdText = (value: number, digitsMax: number): string =>
  usdFormats[digitsMax]!.format(value).replace('-', '\u2212');

/** The change from `before` to `now` as a ratio; null if `before` is zero. */
export function changeRatio(now: number, before: number): number | null {
  return before === 0 ? null : (now - before) / before;
}

export function formatPercent(ratio: number): string {
  return `${(ratio * 100).toFixed(1).replace(/\.0$/, '')}%`;
}

export function formatDurationMs(milliseconds: number): string {
  const exact = Math.round(milliseconds);
  if (exact < 1000) return `${exact} ms`;
  if (exact < 59_950) return `${(exact / 1000).toFixed(exact < 9_995 ? 2 : 1)} s`;
  const seconds = Math.round(exact / 1000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/**
 * A typed number. Other text stays text, so that the API says what it expects: Number('ten') is NaN, which JSON turns into null, and in
 * some fields null means "none".
 */
export function numberOrText(text: string): number | string {
  const value = Number(text);
  return text.trim() === '' || !Number.isFinite(value) ? text : value;
}
