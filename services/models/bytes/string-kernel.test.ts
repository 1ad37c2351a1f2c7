import fc from 'fast-check';
import { expect, test } from 'vitest';
import { trials } from './fixtures/json-text.ts';
import { createStringKernel } from './string-kernel.ts';

/** Steps with `find` from one special byte to the next, over the escapes in between, as its callers do. */
function stops(kernel: ReturnType<typeof createStringKernel>, bytes: Buffer, start: number): number[] {
  // Leftovers of an earlier text after the end must not be seen.
  kernel.window.fill(0x22);
  kernel.window.set(bytes);
  const found: number[] = [];
  let position = start;
  while (position < bytes.length) {
    position = kernel.find(position, bytes.length);
    if (position >= bytes.length) break;
    const usual = bytes[position] === 0x5c && [0x6e, 0x22, 0x5c].includes(bytes[position + 1]!);
    if (!usual) found.push(position);
    position += usual ? 2 : 1;
  }
  return found;
}

test('the loop with and without vector instructions finds the same bytes', () => {
  const vector = createStringKernel();
  const plain = createStringKernel(new Uint8Array([0]));
  expect(vector.find).not.toEqual(plain.find);
  const byte = fc.oneof(fc.constantFrom(...Buffer.from('aaaaaaaaaaaaaaa"\\\\n\u0000\u001f ')), fc.nat(255));
  const bytes = fc.array(byte, { maxLength: 120, size: 'max' });
  fc.assert(
    fc.property(bytes, fc.nat(20), (values, start) => {
      const text = Buffer.from(values);
      expect(stops(vector, text, start)).toEqual(stops(plain, text, start));
    }),
    trials,
  );
});
