import { beginWalk, skipString } from './json-walk.ts';
import { applySplices, type Splice } from './splice.ts';

/** The inside of a string, between its quotes. */
export type Hole = { start: number; end: number };

/** More strings than these may vary in a chunk: then it has no shape worth keeping. */
const holesMax = 3;

/**
 * A chunk of a stream without the text in it. The chunks of one stream differ in a word, so that comparing them with the last one is enough
 * to know all about them that reading would tell, and what has to be changed: a tenth of the cost.
 */
export class ChunkShape {
  /** What stands before, between and behind the holes. */
  readonly #literals: readonly Buffer[];
  /** The same as it has to be written, as a whole frame; null: as it came. */
  readonly #written: readonly Buffer[] | null;
  readonly #textHole: number;
  /** The holes of the chunk that matched last: start, end, start, end… */
  readonly #holes: number[] = [];

  /** The shape of the well-formed chunk in `data[start, end)`; null when its changes touch what varies. */
  static of(
    data: Buffer,
    [start, end]: readonly [number, number],
    text: Hole,
    others: readonly Hole[],
    splices: readonly Splice[],
  ): ChunkShape | null {
    const holes = [text, ...others].sort((one, other) => one.start - other.start);
    if (holes.length > holesMax) return null;
    const literals: Buffer[] = [];
    const written: Buffer[] = [];
    let splicesUsed = 0;
    for (let index = 0; index <= holes.length; index += 1) {
      const from = holes[index - 1]?.end ?? start;
      const to = holes[index]?.start ?? end;
      const inside = splices.filter((splice) => splice.start >= from && splice.end <= to);
      splicesUsed += inside.length;
      literals.push(Buffer.from(data.subarray(from, to)));
      const first = index === 0 ? [framePrefix] : [];
      const last = index === holes.length ? [frameSuffix] : [];
      written.push(Buffer.concat([...first, ...applySplices(data, from, to, inside), ...last]));
    }
    if (splicesUsed !== splices.length) return null;
    return new ChunkShape(literals, splices.length === 0 ? null : written, holes.indexOf(text));
  }

  private constructor(literals: readonly Buffer[], written: readonly Buffer[] | null, textHole: number) {
    this.#literals = literals;
    this.#written = written;
    this.#textHole = textHole;
  }

  /** Whether `data[start, end)` has this shape; then the members below are about it. */
  matches(data: Buffer, start: number, end: number): boolean {
    const literals = this.#literals;
    const holeCount = literals.length - 1;
    if (!sameBytes(data, start, end, literals[0]!)) return false;
    let position = start + literals[0]!.length;
    beginWalk();
    for (let index = 0; index < holeCount; index += 1) {
      this.#holes[index * 2] = position;
      position = skipString(data, position, end) - 1;
      if (position < 0) return false;
      this.#holes[index * 2 + 1] = position;
      const literal = literals[index + 1]!;
      if (!sameBytes(data, position, end, literal)) return false;
      position += literal.length;
    }
    return position === end;
  }

  get textStart(): number {
    return this.#holes[this.#textHole * 2]!;
  }

  get textEnd(): number {
    return this.#holes[this.#textHole * 2 + 1]!;
  }

  /** Whether a chunk of this shape goes on as it came. */
  get isRight(): boolean {
    return this.#written === null;
  }

  /** The frame to write for the chunk that matched. */
  frameFor(data: Buffer): Buffer {
    const written = this.#written!;
    const holes = this.#holes;
    let length = 0;
    for (const literal of written) length += literal.length;
    for (let index = 0; index < written.length - 1; index += 1) length += holes[index * 2 + 1]! - holes[index * 2]!;
    const frame = Buffer.allocUnsafe(length);
    let position = 0;
    for (let index = 0; index < written.length; index += 1) {
      frame.set(written[index]!, position);
      position += written[index]!.length;
      if (index === written.length - 1) break;
      for (let from = holes[index * 2]!; from < holes[index * 2 + 1]!; from += 1) {
        frame[position] = data[from]!;
        position += 1;
      }
    }
    return frame;
  }
}

/** What a frame of one data line has about its data. */
export const framePrefix = Buffer.from('data: ');
export const frameSuffix = Buffer.from('\n\n');

function sameBytes(data: Buffer, start: number, end: number, literal: Buffer): boolean {
  const { length } = literal;
  if (end - start < length) return false;
  // Shorter than a native comparison costs to call.
  for (let offset = 0; offset < length; offset += 1) if (data[start + offset] !== literal[offset]) return false;
  return true;
}
