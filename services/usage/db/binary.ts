/** Postgres counts time from 2000, in microseconds. */
const postgresEpochMs = Date.UTC(2000, 0, 1);

/** Postgres's numbers for its types, which arrays contain (pg_type.dat). */
const typeIds = { bigint: 20, text: 25, timestamptz: 1184, uuid: 2950 } as const;
type ItemType = keyof typeof typeIds;

/**
 * Collects values in the binary form that Postgres sends and receives (PostgreSQL documentation, "Message Formats" and COPY): an event is
 * stored as some thirty numbers and ids, which would cost more to print and parse than to store.
 */
export class BinaryWriter {
  #bytes: Buffer;
  #view: DataView;
  #length = 0;

  /** With room for some bytes; it grows. */
  constructor(room: number) {
    this.#bytes = Buffer.allocUnsafe(room);
    this.#view = viewOf(this.#bytes);
  }

  int16(value: number): void {
    this.#makeRoom(2);
    this.#view.setInt16(this.#length, value);
    this.#length += 2;
  }

  int32(value: number): void {
    this.#makeRoom(4);
    this.#view.setInt32(this.#length, value);
    this.#length += 4;
  }

  /** Bytes as they are, without their length. */
  raw(bytes: Uint8Array): void {
    this.#makeRoom(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  /** The header of an array's items; an array in a field has its length before it. */
  arrayStart(type: ItemType, count: number): void {
    this.int32(count === 0 ? 0 : 1);
    this.int32(0);
    this.int32(typeIds[type]);
    if (count === 0) return;
    this.int32(count);
    this.int32(1);
  }

  // From here on each value follows its length, as fields of rows and items of arrays do.

  null(): void {
    this.int32(-1);
  }

  boolean(value: boolean): void {
    this.#makeRoom(5);
    this.#view.setInt32(this.#length, 1);
    this.#view.setInt8(this.#length + 4, value ? 1 : 0);
    this.#length += 5;
  }

  smallint(value: number): void {
    this.int32(2);
    this.int16(value);
  }

  integer(value: number): void {
    this.int32(4);
    this.int32(value);
  }

  bigint(value: number | bigint): void {
    this.#makeRoom(12);
    this.#view.setInt32(this.#length, 8);
    if (typeof value === 'bigint') {
      this.#view.setBigInt64(this.#length + 4, value);
    } else {
      this.#view.setInt32(this.#length + 4, Math.floor(value / 2 ** 32));
      this.#view.setUint32(this.#length + 8, value >>> 0);
    }
    this.#length += 12;
  }

  timestamptz(ms: number): void {
    this.bigint((ms - postgresEpochMs) * 1_000);
  }

  uuid(id: string): void {
    this.#makeRoom(20);
    this.#view.setInt32(this.#length, 16);
    const bytes = this.#bytes;
    let to = this.#length + 4;
    for (let from = 0; from < 36; from += 2) {
      if (from === 8 || from === 13 || from === 18 || from === 23) from += 1;
      bytes[to] = (nibble(id.charCodeAt(from)) << 4) | nibble(id.charCodeAt(from + 1));
      to += 1;
    }
    this.#length = to;
  }

  uuids(ids: readonly string[]): void {
    this.int32(ids.length === 0 ? 12 : 20 + ids.length * 20);
    this.arrayStart('uuid', ids.length);
    for (const id of ids) this.uuid(id);
  }

  text(value: string): void {
    // No character takes more than three bytes per UTF-16 unit.
    this.#makeRoom(4 + value.length * 3);
    const length = this.#bytes.write(value, this.#length + 4);
    this.#view.setInt32(this.#length, length);
    this.#length += 4 + length;
  }

  /** What was written. */
  bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  #makeRoom(length: number): void {
    if (this.#length + length <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#length + length));
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = larger;
    this.#view = viewOf(larger);
  }
}

const viewOf = (bytes: Buffer): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** The value of a hexadecimal digit's character code. Letters are above 64; a branch on that would be mispredicted half of the time. */
const nibble = (code: number): number => (code & 0xf) + (code >> 6) * 9;

/** An array in binary, as a statement's parameter: pg sends a Buffer unchanged. */
export function arrayOf<Type extends ItemType, Item>(
  type: Type,
  items: readonly Item[],
  read: (item: Item) => Parameters<BinaryWriter[Type]>[0],
): Buffer {
  const writer = new BinaryWriter(20 + items.length * 20);
  writer.arrayStart(type, items.length);
  const write = writer[type].bind(writer) as (value: unknown) => void;
  for (const item of items) write(read(item));
  return writer.bytes();
}
