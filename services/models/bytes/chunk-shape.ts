import type { GrowingBuffer } from '#shared/growing-buffer.ts';
import { beginWalk, skipString } from './json-walk.ts';
import { applySplices, type Splice } from './splice.ts';

/** The inside of a string, between its quotes. */
export type Hole = { start: number; end: number };

/** If more strings than these vary in a chunk, it has no shape worth keeping. */
const holesMax = 3;

/**
 * A chunk of a stream without the text in it. The chunks of one stream differ in a word: comparing one with the last shows everything that
 * reading it would show, including the changes it needs, at a tenth of the cost.
 */
export class ChunkShape {
  /** What is before, between and after the holes. */
  readonly #literals: readonly DataView[];
  /** The same as it has to be written, as a whole frame; null: unchanged. */
  readonly #written: readonly Buffer[] | null;
  readonly #textHole: number;
  /** The holes of the chunk that matched last: start, end, start, end… */
  readonly #holes: number[] = [];

  /** The shape of the well-formed chunk in `data[start, end)`; null when its changes affect what varies. */
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
    this.#literals = literals.map(viewOf);
    this.#written = written;
    this.#textHole = textHole;
  }

  /** Whether `data[start, end)` has this shape; if so, the members below describe it. `view` is of the same bytes. */
  matches(data: Buffer, view: DataView, start: number, end: number): boolean {
    const literals = this.#literals;
    const holeCount = literals.length - 1;
    if (!sameBytes(view, start, end, literals[0]!)) return false;
    let position = start + literals[0]!.byteLength;
    beginWalk();
    for (let index = 0; index < holeCount; index += 1) {
      this.#holes[index * 2] = position;
      position = skipString(data, position, end) - 1;
      if (position < 0) return false;
      this.#holes[index * 2 + 1] = position;
      const literal = literals[index + 1]!;
      if (!sameBytes(view, position, end, literal)) return false;
      position += literal.byteLength;
    }
    return position === end;
  }

  get textStart(): number {
    return this.#holes[this.#textHole * 2]!;
  }

  get textEnd(): number {
    return this.#holes[this.#textHole * 2 + 1]!;
  }

  /** Whether a chunk of this shape is passed on unchanged. */
  get isRight(): boolean {
    return this.#written === null;
  }

  /** Writes the frame for the chunk that matched. */
  writeFrame(data: Buffer, output: GrowingBuffer): void {
    const written = this.#written!;
    const holes = this.#holes;
    output.appendWhole(written[0]!);
    for (let index = 1; index < written.length; index += 1) {
      output.append(data, holes[index * 2 - 2]!, holes[index * 2 - 1]!);
      output.appendWhole(written[index]!);
    }
  }
}

/** What precedes the data in a frame of one data line. */
export const framePrefix = Buffer.from('data: ');
export const frameSuffix = Buffer.from('\n\n');

export const viewOf = (bytes: Buffer): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.length);

/** Four bytes at a time: a native comparison costs more to call, and single bytes take three times as long. */
function sameBytes(data: DataView, start: number, end: number, literal: DataView): boolean {
  const length = literal.byteLength;
  if (end - start < length) return false;
  let offset = 0;
  for (; offset + 4 <= length; offset += 4) {
    if (data.getInt32(start + offset, true) !== literal.getInt32(offset, true)) return false;
  }
  for (; offset < length; offset += 1) if (data.getInt8(start + offset) !== literal.getInt8(offset)) return false;
  return true;
}
