type Pieces = { count: number; length: number };

const add = (pieces: Pieces, text: string): void => {
  pieces.count += 1;
  pieces.length += text.length;
};

/** How much of a text has come: in deltas, in segments (by speaker), or in both, which then say the same. */
export class SaidText {
  readonly #deltas: Pieces = { count: 0, length: 0 };
  readonly #segments: Pieces = { count: 0, length: 0 };

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
}
