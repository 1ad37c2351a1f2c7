/**
 * The names of members to look for, prepared for comparison with bytes. Letters, digits and underscores only; names with capitals are found
 * only as they are, those without also in another case.
 */
export type FieldSet<Name extends string = string> = {
  readonly names: readonly Name[];
  /** Grouped by length, which alone rules out nearly every other key. */
  readonly byLength: readonly (readonly FieldBytes[] | undefined)[];
};

type FieldBytes = { index: number; bytes: Uint8Array };

/** Prepares names; made once for each kind of object. */
export function fieldSet<const Name extends string>(...names: Name[]): FieldSet<Name> {
  const byLength: FieldBytes[][] = [];
  names.forEach((name, index) => {
    if (!/^[a-zA-Z0-9_]+$/.test(name)) throw new TypeError(`${name} is not a name that can be looked for`);
    byLength[name.length] ??= [];
    byLength[name.length]!.push({ index, bytes: Buffer.from(name) });
  });
  return { names, byLength };
}

/**
 * The index of the field that the key in `bytes[start, end)` names; `-2 - index` when they differ only in case; -1 for none. For ASCII keys
 * without escapes.
 */
export function matchPlainKey(fields: FieldSet, bytes: Uint8Array, start: number, end: number): number {
  const candidates = fields.byLength[end - start];
  if (candidates === undefined) return -1;
  for (const candidate of candidates) {
    const wanted = candidate.bytes;
    let exact = true;
    let offset = 0;
    for (; offset < wanted.length; offset += 1) {
      const byte = bytes[start + offset]!;
      if (byte === wanted[offset]) continue;
      // Names consist of lower-case letters, whose upper-case forms lack one bit, and of characters without case.
      if (byte < 0x41 || byte > 0x5a || (byte | 0x20) !== wanted[offset]) break;
      exact = false;
    }
    if (offset === wanted.length) return exact ? candidate.index : -2 - candidate.index;
  }
  return -1;
}

/** The index of the field that any key, decoded, names, as `matchPlainKey` returns it. */
export function matchDecodedKey(fields: FieldSet, key: string): number {
  const exact = fields.names.indexOf(key);
  if (exact !== -1) return exact;
  // Both ways, so that the long s (U+017F) and the Kelvin sign (U+212A) become s and k, as they do in Go.
  const folded = fields.names.indexOf(key.toUpperCase().toLowerCase());
  return folded === -1 ? -1 : -2 - folded;
}
