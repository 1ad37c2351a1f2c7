import { costNanoUsdMax } from '#shared/money.ts';

/** Prices of a model from a moment on, in nano-USD; 0: free of charge. */
export type PriceVersion = {
  /** UUID; stands on each usage event. */
  id: string;
  effectiveFromMs: number;
  /** It was set to apply at once: whoever knows of it has to charge it, also where the clock is behind. */
  appliesAtOnce: boolean;
  inputPerMillionTokens: bigint;
  /** Cached prompt tokens; equal to the input price where an upstream gives no discount. */
  cachedInputPerMillionTokens: bigint;
  outputPerMillionTokens: bigint;
  perImage: bigint;
  perAudioSecond: bigint;
  perMillionCharacters: bigint;
  perRequest: bigint;
};

/** What a call used. Measures that do not apply are zero. */
export type Measures = {
  /** Cached tokens included. */
  inputTokens: number;
  cachedInputTokens: number;
  outputTokens: number;
  images: number;
  audioMs: number;
  characters: number;
};

export const noMeasures: Measures = {
  inputTokens: 0,
  cachedInputTokens: 0,
  outputTokens: 0,
  images: 0,
  audioMs: 0,
  characters: 0,
};

/** What is not given is zero. Written out: a spread costs as much as the whole pricing. */
export const allMeasures = (told: Partial<Measures>): Measures => ({
  inputTokens: told.inputTokens ?? 0,
  cachedInputTokens: told.cachedInputTokens ?? 0,
  outputTokens: told.outputTokens ?? 0,
  images: told.images ?? 0,
  audioMs: told.audioMs ?? 0,
  characters: told.characters ?? 0,
});

const million = 1_000_000n;
/** Integers below this, even plus half a million, are exact as doubles. */
const exactMax = Number.MAX_SAFE_INTEGER - 1_000_000;

/**
 * The cost of one call in nano-USD. The sum is exact and rounded half up to a whole nano-USD once, at the end, so that a call's cost does
 * not depend on the order of its parts. It is at most `costNanoUsdMax`: more could be neither held nor stored.
 */
export function priceUsage(price: PriceVersion, used: Measures): bigint {
  const cached = Math.min(used.cachedInputTokens, used.inputTokens);
  // In millionths of a nano-USD; audio is in milliseconds, hence the thousand.
  const doubled =
    (used.inputTokens - cached) * Number(price.inputPerMillionTokens) +
    cached * Number(price.cachedInputPerMillionTokens) +
    used.outputTokens * Number(price.outputPerMillionTokens) +
    used.characters * Number(price.perMillionCharacters) +
    used.images * Number(price.perImage) * 1_000_000 +
    used.audioMs * Number(price.perAudioSecond) * 1_000 +
    Number(price.perRequest) * 1_000_000;
  // No part exceeds the sum, so below this limit all are exact: a call of a few cents in an eighth of the time that bigints take.
  if (doubled < exactMax) {
    const rounded = doubled + 500_000;
    return BigInt((rounded - (rounded % 1_000_000)) / 1_000_000);
  }
  const millionths =
    BigInt(used.inputTokens - cached) * price.inputPerMillionTokens +
    BigInt(cached) * price.cachedInputPerMillionTokens +
    BigInt(used.outputTokens) * price.outputPerMillionTokens +
    BigInt(used.characters) * price.perMillionCharacters +
    BigInt(used.images) * price.perImage * million +
    BigInt(used.audioMs) * price.perAudioSecond * 1000n +
    price.perRequest * million;
  const cost = (millionths + million / 2n) / million;
  return cost < costNanoUsdMax ? cost : costNanoUsdMax;
}

/** The version in force at a moment; null before the first. Versions are sorted by `effectiveFromMs`. */
export function priceAt(versions: readonly PriceVersion[], atMs: number): PriceVersion | null {
  return versions.findLast(({ effectiveFromMs }) => effectiveFromMs <= atMs) ?? null;
}

type PriceTimes = Pick<PriceVersion, 'effectiveFromMs' | 'appliesAtOnce'>;

/** Whether a version has begun to apply, by a clock that may differ from the one by which it was set. */
export const hasBegun = ({ appliesAtOnce, effectiveFromMs }: PriceTimes, nowMs: number): boolean =>
  appliesAtOnce || effectiveFromMs <= nowMs;

/** The version in force now: the last that has begun. */
export function priceNow(versions: readonly PriceVersion[], nowMs: number): PriceVersion | null {
  return versions.findLast((version) => hasBegun(version, nowMs)) ?? null;
}
