import type { Tokenizer } from '../bytes/tokens.ts';

/** How much of a text is kept for counting its tokens, in characters: a quarter of an hour of speech. The rest is counted like it. */
const keptLengthMax = 16 * 1024;

type Pieces = { count: number; length: number; kept: string };

function add(pieces: Pieces, text: string): void {
  pieces.count += 1;
  pieces.length += text.length;
  const left = keptLengthMax - pieces.kept.length;
  // A slice is copied, or it would keep the whole text in memory.
  if (left > 0) pieces.kept += text.length <= left ? text : Buffer.from(text.slice(0, left)).toString();
}

/** A text that has come: in deltas, in segments (by speaker), or in both, which then say the same. */
export class SaidText {
  readonly #deltas: Pieces = { count: 0, length: 0, kept: '' };
  readonly #segments: Pieces = { count: 0, length: 0, kept: '' };

  delta(text = ''): void {
    add(this.#deltas, text);
  }

  segment(text = ''): void {
    add(this.#segments, text);
  }

  /** How many pieces brought it. */
  get pieces(): number {
    return Math.max(this.#deltas.count, this.#segments.count);
  }

  /** In characters. */
  get length(): number {
    return Math.max(this.#deltas.length, this.#segments.length);
  }

  /** Its tokens, for an upstream that does not report them; at least one for each piece. `whole`: the text as the answer's end has it. */
  async tokens(tokenizer: Tokenizer, whole = ''): Promise<number> {
    const { kept, length } = this.#segments.length > this.#deltas.length ? this.#segments : this.#deltas;
    if (whole.length >= length) return Math.max(this.pieces, await tokenizer.count(whole));
    return Math.max(this.pieces, Math.round((await tokenizer.count(kept)) * (length / kept.length)));
  }
}
