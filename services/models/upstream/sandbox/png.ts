import { promisify } from 'node:util';
import { crc32, deflate } from 'node:zlib';

const deflateAsync = promisify(deflate);

type Picture = {
  width: number;
  height: number;
  /** Four colours, 0xRRGGBB. */
  palette: readonly [number, number, number, number];
  /** Whether the palette's first colour is fully transparent. */
  transparent: boolean;
  /** Square grid of palette indexes, stretched over the whole picture. */
  grid: readonly (readonly number[])[];
};

/** Encodes a picture as a PNG with two bits for each pixel (W3C PNG, third edition). The work of zlib is done off the main thread. */
export async function encodePng({ width, height, palette, transparent, grid }: Picture): Promise<Buffer> {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  // Bit depth 2, colour type 3 (indexed), the only compression and filter methods, not interlaced.
  header.set([2, 3, 0, 0, 0], 8);
  const colours = Buffer.from(palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 0xff, colour & 0xff]));
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk('IHDR', header),
    chunk('PLTE', colours),
    ...(transparent ? [chunk('tRNS', Buffer.from([0]))] : []),
    chunk('IDAT', await deflateAsync(scanlines(width, height, grid), { level: 1 })),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

/** Each line is a filter byte (0: none) and its pixels, four to a byte. All lines of one row of the grid are equal. */
function scanlines(width: number, height: number, grid: readonly (readonly number[])[]): Buffer {
  const lineBytes = 1 + Math.ceil(width / 4);
  const rows = grid.map((row) => {
    const line = Buffer.alloc(lineBytes);
    for (let x = 0; x < width; x++) {
      line[1 + (x >> 2)]! |= row[Math.floor((x * row.length) / width)]! << (6 - 2 * (x & 3));
    }
    return line;
  });
  const lines = Buffer.allocUnsafe(lineBytes * height);
  for (let y = 0; y < height; y++) lines.set(rows[Math.floor((y * rows.length) / height)]!, y * lineBytes);
  return lines;
}

function chunk(type: string, data: Uint8Array): Buffer {
  const bytes = Buffer.alloc(12 + data.length);
  bytes.writeUInt32BE(data.length, 0);
  bytes.write(type, 4, 'latin1');
  bytes.set(data, 8);
  bytes.writeUInt32BE(crc32(bytes.subarray(4, 8 + data.length)), 8 + data.length);
  return bytes;
}
