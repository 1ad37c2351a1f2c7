/**
 * Money is an integer number of nano-USD (1e-9 USD), a bigint everywhere inside. In JSON it is a number whose text is
 * the exact decimal of that integer (decisions.md, Common).
 */
export type NanoUsd = bigint;

const nanoUsdPerUsd = 1_000_000_000n;

/** The highest cost of one call, a million USD: sums of thousands of them fit into 64 bits. */
export const costNanoUsdMax = 1_000_000n * nanoUsdPerUsd;

/** The largest amount that one request of a person may name: a billion USD. */
export const amountMax = 1_000_000_000n * nanoUsdPerUsd;

export const nanoUsdPerCent = 10_000_000n;

/** A non-negative amount rounded up to whole cents, as money is paid: the difference becomes credit. */
export const upToWholeCent = (nanoUsd: NanoUsd): NanoUsd =>
  ((nanoUsd + nanoUsdPerCent - 1n) / nanoUsdPerCent) * nanoUsdPerCent;

/** The exact decimal text of an amount in USD: 25, 0.1, 0.000012345; no exponent, no trailing zeros. */
export function usdText(nanoUsd: NanoUsd): string {
  const sign = nanoUsd < 0n ? '-' : '';
  const magnitude = nanoUsd < 0n ? -nanoUsd : nanoUsd;
  const whole = magnitude / nanoUsdPerUsd;
  const fraction = (magnitude % nanoUsdPerUsd).toString().padStart(9, '0').replace(/0+$/, '');
  return fraction === '' ? `${sign}${whole}` : `${sign}${whole}.${fraction}`;
}

declare global {
  interface JSON {
    /** ECMAScript proposal "JSON.parse source text access": text that JSON.stringify writes as it is. */
    rawJSON(text: string): object;
    isRawJSON(value: unknown): boolean;
  }
}

/**
 * The amount as a JSON number with exactly the digits of `usdText`; `JSON.stringify` writes it without going through a double. Its type is
 * what readers of the JSON get; here it can only be written.
 */
export const usdJson = (nanoUsd: NanoUsd): number => JSON.rawJSON(usdText(nanoUsd)) as unknown as number;

const decimalPattern = /^(-?)(\d{1,10})(?:\.(\d{1,9}))?$/;

/** Reads a decimal text in USD; null unless it is a plain decimal with at most nine decimals and ten integer digits. */
export function parseUsd(text: string): NanoUsd | null {
  const match = decimalPattern.exec(text);
  if (match === null) return null;
  const magnitude = BigInt(match[2]!) * nanoUsdPerUsd + BigInt((match[3] ?? '').padEnd(9, '0'));
  return match[1] === '-' ? -magnitude : magnitude;
}

/** Reads a JSON number in USD by its shortest decimal text, so that 0.1 is exactly 100,000,000 nano-USD. */
export function usdFromNumber(value: number): NanoUsd | null {
  if (!Number.isFinite(value)) return null;
  const text = String(value);
  if (!text.includes('e')) return parseUsd(text);
  const plain = value.toFixed(9);
  return Number(plain) === value ? parseUsd(plain) : null;
}
