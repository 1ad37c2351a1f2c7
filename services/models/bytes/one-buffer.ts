/** Pieces as one buffer: not copied when they are already adjacent, as the upstream client gathers them. */
export function oneBuffer(pieces: readonly Uint8Array[]): Buffer {
  const [first] = pieces;
  if (first === undefined) return Buffer.alloc(0);
  if (pieces.length === 1 && Buffer.isBuffer(first)) return first;
  let length = 0;
  for (const { buffer, byteOffset, byteLength } of pieces) {
    if (buffer !== first.buffer || byteOffset !== first.byteOffset + length) return Buffer.concat(pieces);
    length += byteLength;
  }
  return Buffer.from(first.buffer, first.byteOffset, length);
}
