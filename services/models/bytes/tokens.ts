import { setImmediate as nextTurn } from 'node:timers/promises';

/**
 * Real token counts in the o200k_base vocabulary. Text that looks like a special token counts as plain text. All users of a tokenizer share
 * short turns of the event loop: a megabyte of random letters takes seconds.
 */
export type Tokenizer = {
  /**
   * The number of tokens; stops soon after `max`, so that an endless text costs no more than the window it exceeds. Of a text longer than 1
   * MiB characters that many, evenly spread, are counted, and stand for the rest.
   */
  count(text: string, max?: number): Promise<number>;
  encode(text: string): Promise<number[]>;
  /** The text of token ids, with U+FFFD for characters that they only begin or end; null when one of them is not a token. */
  decode(tokens: readonly number[]): string | null;
  /** A token in UTF-8, which may begin or end inside a character. */
  spell(token: number): Buffer;
  /** The part of `text` spelled by its first `max` tokens, and the number of tokens used. */
  first(text: string, max: number): Promise<{ text: string; tokens: number; whole: boolean }>;
};

/** Counts of texts up to this length are remembered, for this many of them: 4 MB at most. */
const rememberedLengthMax = 1_000;
const rememberedMax = 2_000;
/** How many merged words the library remembers. It drops the oldest at a cost that grows with their number. */
const mergesRemembered = 1_000;
/** How long the event loop is held at a time, in milliseconds; the piece already begun is finished. */
const turnMsMax = 2;
/** How many characters of a text are counted, and in how many parts. */
const countedLengthMax = 1024 * 1024;
const samples = 16;

/** A tokenizer for all, loaded when it is first asked for; after a failure, as without a free descriptor, when it is asked for again. */
export function tokenizerOnDemand(load = loadTokenizer): () => Promise<Tokenizer> {
  let loading: Promise<Tokenizer> | undefined;
  return () => {
    loading ??= load().catch((error) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };
}

/** Loads the vocabulary: 160 ms of CPU and about 60 MB, hence only when the first call needs it. */
export async function loadTokenizer(): Promise<Tokenizer> {
  const vocabulary = await import('gpt-tokenizer/encoding/o200k_base');
  const { default: spellings } = await import('gpt-tokenizer/bpeRanks/o200k_base');
  vocabulary.setMergeCacheSize(mergesRemembered);
  const options = { disallowedSpecial: new Set<string>() };

  let turnEndMs = 0;
  let turnComing: Promise<void> | undefined;
  /**
   * Feeds a text's pieces to `take` until it returns `goesOn` false, in turns of the event loop that last `turnMsMax` for all texts
   * together.
   */
  async function eachPiece(text: string, take: (piece: string) => { goesOn: boolean }): Promise<void> {
    for (const piece of piecesOf(text)) {
      while (performance.now() >= turnEndMs) {
        turnComing ??= nextTurn().then(() => {
          turnComing = undefined;
          turnEndMs = performance.now() + turnMsMax;
        });
        await turnComing;
      }
      if (!take(piece).goesOn) return;
    }
  }

  /** The library's own decoding keeps half a character for the next text. Special tokens, which `spellings` lacks, never end inside one. */
  const spell = (token: number): Buffer => Buffer.from(spellings[token] ?? vocabulary.decode([token]));
  async function encode(text: string, max = Number.POSITIVE_INFINITY): Promise<number[]> {
    const tokens: number[] = [];
    await eachPiece(text, (piece) => {
      tokens.push(...vocabulary.encode(piece, options));
      return { goesOn: tokens.length <= max };
    });
    return tokens;
  }
  async function countPieces(text: string, max: number): Promise<number> {
    const scale = Math.max(1, text.length / countedLengthMax);
    let counted = 0;
    for (const part of partsCounted(text)) {
      await eachPiece(part, (piece) => {
        counted += vocabulary.countTokens(piece, options);
        return { goesOn: counted * scale <= max };
      });
      if (counted * scale > max) break;
    }
    return Math.round(counted * scale);
  }
  // Counting is half the CPU of a small answer, and under load the same texts come again and again.
  const counts = new Map<string, number>();
  async function count(text: string, max = Number.POSITIVE_INFINITY): Promise<number> {
    if (text.length > rememberedLengthMax) return countPieces(text, max);
    const known = counts.get(text);
    if (known !== undefined) return known;
    const counted = await countPieces(text, Number.POSITIVE_INFINITY);
    if (counts.size === rememberedMax) counts.clear();
    counts.set(text, counted);
    return counted;
  }
  return {
    count,
    encode: (text) => encode(text),
    decode(tokens) {
      if (tokens.some((token) => !Number.isInteger(token) || token < 0)) return null;
      try {
        return Buffer.concat(tokens.map(spell)).toString();
      } catch {
        return null;
      }
    },
    spell,
    async first(text, max) {
      if (text.length <= rememberedLengthMax) {
        const total = await count(text);
        if (total <= max) return { text, tokens: total, whole: true };
      }
      const tokens = await encode(text, max);
      if (tokens.length <= max) return { text, tokens: tokens.length, whole: true };
      const spelled = Buffer.concat(tokens.slice(0, max).map(spell));
      // Of a character in which the last token ends, the decoder keeps what it has.
      const cut = new TextDecoder('utf-8', { ignoreBOM: true }).decode(spelled, { stream: true });
      return { text: cut, tokens: max, whole: false };
    },
  };
}

/** The part of a text that is counted: all of it, or samples of a long one. */
function partsCounted(text: string): string[] {
  if (text.length <= countedLengthMax) return [text];
  const length = countedLengthMax / samples;
  const distance = (text.length - length) / (samples - 1);
  return Array.from({ length: samples }, (_, sample) => {
    const start = Math.round(sample * distance);
    return text.slice(start, start + length);
  });
}

/** The tokenizer's time is quadratic in the length of a run of non-space (or of space): 100,000 equal characters take seconds. */
const runLengthMax = 400;
/** A piece is read in one go, so it should be short; one without a good end is cut anyway once it is twice as long. */
const pieceLengthMax = 500;

/** A text in pieces. Cutting overlong runs, and pieces without a good end, changes the count a little; nothing else does. */
export function* piecesOf(text: string): Generator<string> {
  let pieceStart = 0;
  let runStart = 0;
  let runIsSpace = isSpace(text.charCodeAt(0));
  for (let i = 1; i < text.length; i++) {
    const code = text.charCodeAt(i);
    let isEnd = false;
    if (isSpace(code) !== runIsSpace) {
      // " word" is one token, and so are "!\n" and "!\n//": a text is cut before a space that ends no line, and after the end of a line.
      const isGood = runIsSpace ? isLineEnd(text.charCodeAt(i - 1)) && code !== 0x2f : !isLineEnd(code);
      isEnd = i - pieceStart > (isGood ? pieceLengthMax : 2 * pieceLengthMax);
      runStart = i;
      runIsSpace = !runIsSpace;
    } else if (i - runStart >= runLengthMax && (code & 0xfc00) !== 0xdc00) {
      isEnd = true;
      runStart = i;
    }
    if (isEnd) {
      yield text.slice(pieceStart, i);
      pieceStart = i;
    }
  }
  yield text.slice(pieceStart);
}

const isLineEnd = (code: number): boolean => code === 0x0a || code === 0x0d;

/** What \s matches, without the cost of a regular expression per character. */
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
