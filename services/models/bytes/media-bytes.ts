import { isAscii } from 'node:buffer';
import { asBuffer } from '#shared/as-buffer.ts';

const blockBytes = 4096;
/** Escapes are looked for in the beginning of a block: finding each costs more than reading a hundred bytes. */
const sampleBytes = 512;
/** PHP escapes the slashes of base64 and .NET its pluses, some 8 in a sample; of Chinese letters written as escapes a sample has 85. */
const escapesMax = 32;
/** Of these, or spaces, a text or an array of token numbers has at least one in each block. */
const notBase64 = ['"', ',', '.'];

/**
 * Roughly how much of a JSON body is base64: whole blocks of ASCII without spaces and `notBase64`. The structure is not asked, since each
 * server takes media in a shape of its own.
 */
export function mediaBytesIn(body: Uint8Array): number {
  const bytes = asBuffer(body);
  let media = 0;
  let space = -1;
  for (let start = 0; start + blockBytes <= bytes.length; start += blockBytes) {
    // Nearly every block of a text has one: this is all that its length costs.
    if (space < start) space = spaceFrom(bytes, start);
    if (space < start + blockBytes) continue;
    if (isBase64(bytes.subarray(start, start + blockBytes))) media += blockBytes;
  }
  return media;
}

/** The position of the first space at or after `start`; infinity if there is none. */
function spaceFrom(bytes: Buffer, start: number): number {
  const position = bytes.indexOf(0x20, start);
  return position === -1 ? Number.POSITIVE_INFINITY : position;
}

function isBase64(block: Buffer): boolean {
  if (notBase64.some((sign) => block.includes(sign)) || !isAscii(block)) return false;
  const sample = block.subarray(0, sampleBytes);
  let escapes = 0;
  for (let at = sample.indexOf('\\'); at !== -1; at = sample.indexOf('\\', at + 1)) {
    escapes += 1;
    if (escapes > escapesMax) return false;
  }
  return true;
}
