/** Real token counts, in the o200k_base vocabulary. Text that looks like a special token counts as plain text. */
export type Tokenizer = {
  /** The number of tokens; stops soon after `max`, so that an endless text costs no more than the window it exceeds. */
  count(text: string, max?: number): number;
  encode(text: string): number[];
  /** The text of token ids; null when one of them is no token. */
  decode(tokens: readonly number[]): string | null;
  /** The part of `text` that its first `max` tokens spell, with the number of tokens used. */
  first(text: string, max: number): { text: string; tokens: number; whole: boolean };
};

/** Texts up to this length have their count remembered, and this many of them: 4 MB at most. */
const rememberedLengthMax = 1_000;
const rememberedMax = 2_000;

/** Loads the vocabulary: 160 ms of CPU and about 60 MB, hence only when the first call needs it. */
export async function loadTokenizer(): Promise<Tokenizer> {
  const vocabulary = await import('gpt-tokenizer/encoding/o200k_base');
  const options = { disallowedSpecial: new Set<string>() };
  const encode = (text: string) => {
    const pieces = splitLongRuns(text);
    return pieces.length === 1
      ? vocabulary.encode(text, options)
      : pieces.flatMap((piece) => vocabulary.encode(piece, options));
  };
  const countPieces = (text: string, max: number) => {
    let total = 0;
    for (const piece of splitLongRuns(text)) {
      total += vocabulary.countTokens(piece, options);
      if (total > max) break;
    }
    return total;
  };
  // Counting is half the CPU of a small answer, and load comes as the same texts again and again.
  const counts = new Map<string, number>();
  const count = (text: string, max = Number.POSITIVE_INFINITY) => {
    if (text.length > rememberedLengthMax) return countPieces(text, max);
    const known = counts.get(text);
    if (known !== undefined) return known;
    if (counts.size === rememberedMax) counts.clear();
    const counted = countPieces(text, Number.POSITIVE_INFINITY);
    counts.set(text, counted);
    return counted;
  };
  return {
    count,
    encode,
    decode(tokens) {
      if (tokens.some((token) => !Number.isInteger(token) || token < 0)) return null;
      try {
        return vocabulary.decode(tokens);
      } catch {
        return null;
      }
    },
    first(text, max) {
      const total = count(text);
      if (total <= max) return { text, tokens: total, whole: true };
      let cut = vocabulary.decode(encode(text).slice(0, max));
      // A token may end inside a character, which then decodes to a replacement character.
      while (!text.startsWith(cut)) cut = cut.slice(0, -1);
      return { text: cut, tokens: max, whole: false };
    },
  };
}

/** The tokenizer's time is quadratic in the length of a run of non-space (or of space): 100,000 equal characters take seconds. */
const runLengthMax = 400;
/** A piece is counted in one go; long texts are cut at the start of a run, so that counting can stop early. */
const pieceLengthMax = 100_000;

/** Splits a text inside its over-long runs, which changes their count a little, and leaves every other text whole. */
export function splitLongRuns(text: string): string[] {
  if (text.length <= runLengthMax) return [text];
  const pieces: string[] = [];
  let pieceStart = 0;
  let runStart = 0;
  let runIsSpace = isSpace(text.charCodeAt(0));
  for (let i = 1; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (isSpace(code) !== runIsSpace) {
      // " word" is one token and so is "!\n", so a text is only ever cut before a blank.
      if (code === 0x20 && i - pieceStart > pieceLengthMax) {
        pieces.push(text.slice(pieceStart, i));
        pieceStart = i;
      }
      runStart = i;
      runIsSpace = !runIsSpace;
    } else if (i - runStart >= runLengthMax && (code & 0xfc00) !== 0xdc00) {
      pieces.push(text.slice(pieceStart, i));
      pieceStart = i;
      runStart = i;
    }
  }
  pieces.push(text.slice(pieceStart));
  return pieces;
}

/** What \s matches, without the price of a regular expression for each character. */
const isSpace = (code: number): boolean =>
  code <= 0x20
    ? code === 0x20 || (code >= 9 && code <= 13)
    : code >= 0xa0 &&
      (code === 0xa0 ||
        code === 0x1680 ||
        (code >= 0x2000 && code <= 0x200a) ||
        code === 0x2028 ||
        code === 0x2029 ||
        code === 0x202f ||
        code === 0x205f ||
        code === 0x3000 ||
        code === 0xfeff);
