import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { memoryGrowth } from '../../test/support/memory.ts';
import { audioFileBytesMax, FormScanner, formField } from './multipart.ts';

const contentType = 'multipart/form-data; boundary=XYZ';

function scan(body: Buffer, cuts: readonly number[] = []) {
  const scanner = new FormScanner(contentType);
  let position = 0;
  for (const cut of [...cuts].sort((one, other) => one - other)) {
    scanner.push(body.subarray(position, cut));
    position = Math.max(position, cut);
  }
  scanner.push(body.subarray(position));
  return scanner.end();
}

type Part = { name: string; fileName: string | null; content: Buffer };
const write = (parts: readonly Part[]): Buffer =>
  Buffer.concat([
    ...parts.flatMap(({ name, fileName, content }) => [
      Buffer.from(`--XYZ\r\nContent-Disposition: form-data; name="${name}"`),
      Buffer.from(fileName === null ? '' : `; filename="${fileName}"\r\nContent-Type: audio/wav`),
      Buffer.from('\r\n\r\n'),
      content,
      Buffer.from('\r\n'),
    ]),
    Buffer.from('--XYZ--\r\n'),
  ]);

/** A form of one part. */
const formOf = (disposition: string, content: string): Buffer =>
  Buffer.from(`--XYZ\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n${content}\r\n--XYZ--\r\n`);

/** Contents that look like boundaries, as far as a client can choose them. */
const contents = fc
  .array(fc.constantFrom('\r\n', '--', 'XY', 'XY Z', 'a', '\0', '\r\n--XY', '--XY\r\n'), { maxLength: 12 })
  .map((pieces) => Buffer.from(pieces.join('')))
  .filter((content) => !content.includes('\r\n--XYZ') && !`\r\n${content}`.includes('\r\n--XYZ'));
const parts = fc.array(
  fc.record({ name: fc.constantFrom('model', 'prompt', 'include[]'), fileName: fc.constant(null), content: contents }),
  { maxLength: 6 },
);

test('a form reads the same however it is cut', () => {
  fc.assert(
    fc.property(parts, contents, fc.array(fc.nat(400), { maxLength: 8 }), (fields, sound, cuts) => {
      const given: Part[] = [...fields, { name: 'file', fileName: 'a.wav', content: sound }];
      const body = write(given);
      const read = scan(
        body,
        cuts.filter((cut) => cut < body.length),
      );
      expect(read.map(({ name, fileName, head }) => ({ name, fileName, content: head }))).toEqual(given);
      for (const [index, part] of read.entries()) {
        expect(body.subarray(part.contentStart, part.contentEnd).equals(given[index]!.content)).toBe(true);
        expect(body.toString('latin1', Math.max(0, part.start), part.contentStart)).toContain('--XYZ\r\n');
      }
    }),
    { numRuns: 1000 },
  );
});

test('a form reads the same byte by byte', () => {
  const body = write([
    { name: 'file', fileName: 'a.wav', content: Buffer.from('\r\n--XY\r\n\r\n--XY--XYZ\r\n\n') },
    { name: 'model', fileName: null, content: Buffer.alloc(0) },
  ]);
  expect(scan(body, [...body.keys()])).toEqual(scan(body));
});

test('a form that comes byte by byte takes hardly more memory than its bytes', async () => {
  const body = write([{ name: 'prompt', fileName: null, content: Buffer.alloc(300_000, 'x') }]);
  const boundBytes = 8 * 1024 * 1024;
  const growthBytes = await memoryGrowth(boundBytes, async () => {
    const scanner = new FormScanner(contentType);
    for (const byte of body.subarray(0, -20)) scanner.push(Buffer.from([byte]));
    // Looked at while the form is unfinished.
    await new Promise((resolve) => setTimeout(resolve, 40));
    for (const byte of body.subarray(-20)) scanner.push(Buffer.from([byte]));
    scanner.end();
  });
  expect(growthBytes).toBeLessThan(boundBytes);
});

describe('what is not a form within limits is refused', () => {
  const field = (name: string, content: string) => ({ name, fileName: null, content: Buffer.from(content) });
  test.each([
    ['a missing last boundary', write([field('a', '1')]).subarray(0, -8)],
    ['text after a boundary', Buffer.from('--XYZjunk\r\n\r\n')],
    ['a part without a name', Buffer.from('--XYZ\r\nContent-Disposition: form-data\r\n\r\n1\r\n--XYZ--')],
    ['a part without a disposition', Buffer.from('--XYZ\r\nX: y\r\n\r\n1\r\n--XYZ--')],
    [
      'a part that begins within the header of another',
      formOf('name="prompt"\r\n--XYZ\r\nContent-Disposition: form-data; name="model"', 'forbidden'),
    ],
    ['a part without a header', Buffer.from(`--XYZ\r\n\r\nforbidden\r\n${formOf('name="a"', '1')}`)],
    ['a part with a header of white space', formOf('name="a"\r\n name="model"', '1')],
    ['a part with half a line break in its header', formOf('name="a"\nX: y', '1')],
    ['a part with two dispositions', formOf('name="a"\r\nContent-Disposition: form-data; name="model"', '1')],
    ['a part with two names', formOf('name="a"; name="model"', '1')],
    ['a part with a name in another form', formOf('name="a"; name*=utf-8\'\'model', '1')],
    ['a part with a name in sections', formOf('name="a"; name*0="mod"; name*1="el"', '1')],
    ['a part with a file name in sections', formOf('name="model"; filename*0="a"', '1')],
    ['a part with a backslash in its name', formOf('name="mo\\del"', '1')],
    ['text before the first boundary', Buffer.from(`text${formOf('name="model"', '1')}`)],
    ['a part with words after its name', formOf('name=a model', '1')],
    ['a long header', Buffer.from(`--XYZ\r\nContent-Disposition: form-data; name="${'a'.repeat(9_000)}`)],
    ['101 parts', write(Array.from({ length: 101 }, () => field('a', '1')))],
    ['two files', write([1, 2].map(() => ({ name: 'file', fileName: 'a.wav', content: Buffer.from('1') })))],
    ['a long field', write([field('prompt', 'a'.repeat(4 * 1024 * 1024))])],
    ['a long preamble', Buffer.alloc(5 * 1024 * 1024)],
  ])('%s', (_what, body) => {
    expect(() => scan(body)).toThrow();
  });

  test.each([
    ['where the content of another does', ''],
    ['after half a line break', '\n'],
    ['after the other half', '\r'],
  ])('a part that begins %s', (_where, before) => {
    const body = formOf('name="a"', `${before}${formOf('name="model"', '1')}`);
    expect(() => scan(body)).toThrow(/contains its boundary/);
  });

  test('a file of more than 25 MiB, as soon as it exceeds that', () => {
    const scanner = new FormScanner(contentType);
    scanner.push(Buffer.from('--XYZ\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'));
    scanner.push(Buffer.alloc(audioFileBytesMax));
    expect(() => scanner.push(Buffer.alloc(64))).toThrow(/25 MiB/);
  });

  test.each([
    'application/json',
    'multipart/form-data',
    'multipart/form-data; boundary=',
    'multipart/mixed; boundary=a',
    'multipart/form-data; boundary=a; boundary=b',
    'multipart/form-data; boundary=a; boundary*=b',
    'multipart/form-data; boundary=\u00e9',
  ])('the type %s', (type) => {
    expect(() => new FormScanner(type)).toThrow(/boundary/);
  });

  test('a field that is read as one and is given twice', () => {
    const form = scan(write([field('model', 'a'), field('model', 'b')]));
    expect(() => formField(form, 'model')).toThrow(/twice/);
  });
});

test('a boundary with a colon is not a header either', () => {
  const body = '--a:b\r\nContent-Disposition: form-data; name="x"\r\n--a:b\r\nX: y\r\n\r\n1\r\n--a:b--';
  const scanner = new FormScanner('multipart/form-data; boundary="a:b"');
  expect(() => scanner.push(Buffer.from(body))).toThrow(/header/);
});

test('a form may begin with a line break', () => {
  expect(scan(Buffer.from(`\r\n${formOf('name="a"', '1')}`))).toHaveLength(1);
});

test('a form is passed on with no parameter but its boundary', () => {
  const types = ['multipart/form-data; charset=utf-7; boundary=XYZ', 'Multipart/Form-Data; boundary="a b;"; x=y'];
  expect(types.map((type) => new FormScanner(type).contentType)).toEqual([
    'multipart/form-data; boundary=XYZ',
    'multipart/form-data; boundary="a b;"',
  ]);
});

test('a name inside another parameter does not count', () => {
  const [part] = scan(formOf('filename="; name=prompt"; name="model"', '1'));
  expect(part).toMatchObject({ name: 'model', fileName: '; name=prompt' });
});

test('escaped quotes and bare names are names', () => {
  const head = '--XYZ\r\ncontent-disposition: form-data; name=model; filename="a\\"b;c.wav"\r\n\r\n1\r\n--XYZ--';
  expect(scan(Buffer.from(head))[0]).toMatchObject({ name: 'model', fileName: 'a"b;c.wav' });
});
