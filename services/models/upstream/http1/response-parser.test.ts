import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { trials, trialTimeoutMs } from '../../bytes/fixtures/json-text.ts';
import { ProtocolError } from './response-head.ts';
import { headBytesMax, ResponseParser } from './response-parser.ts';

/** Reads an answer in pieces of these sizes, repeated; the rest comes in one piece. */
function read(answer: string | Buffer, sizes: readonly number[] = []) {
  const bytes = Buffer.from(answer as string, 'latin1');
  const parser = new ResponseParser();
  const body: Buffer[] = [];
  let at = 0;
  for (let index = 0; at < bytes.length; index++) {
    const end = sizes.length === 0 ? bytes.length : at + sizes[index % sizes.length]!;
    // A buffer that is overwritten afterwards, as the connection's is.
    const piece = Buffer.from(bytes.subarray(at, end));
    parser.push(piece);
    piece.fill('#');
    body.push(parser.data);
    at = end;
  }
  return { parser, head: parser.head, body: Buffer.concat(body).toString('latin1'), done: parser.done };
}

const ok = 'HTTP/1.1 200 OK\r\n';

describe('an answer is refused that', () => {
  test.each<[string, string]>([
    ['has both lengths', `${ok}content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n`],
    ['has two Content-Lengths', `${ok}content-length: 3\r\ncontent-length: 4\r\n\r\n`],
    ['has a list of lengths', `${ok}content-length: 3, 3\r\n\r\n`],
    ['has a signed length', `${ok}content-length: +3\r\n\r\n`],
    ['has a length in hex', `${ok}content-length: 0x3\r\n\r\n`],
    ['has another coding', `${ok}transfer-encoding: gzip, chunked\r\n\r\n`],
    ['has two codings', `${ok}transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n`],
    ['is chunked in HTTP/1.0', 'HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'],
    ['ends lines with LF', 'HTTP/1.1 200 OK\ncontent-length: 0\n\n'],
    ['has a bare LF in a header', `${ok}a: b\nc: d\r\n\r\n`],
    ['has a bare CR in a header', `${ok}a: b\rc: d\r\n\r\n`],
    ['folds a header', `${ok}a: b\r\n c\r\n\r\n`],
    ['has white space before a colon', `${ok}content-length : 3\r\n\r\n`],
    ['has NUL in a header', `${ok}a: \0\r\n\r\n`],
    ['has a header without a name', `${ok}: b\r\n\r\n`],
    ['has a header without a colon', `${ok}abc\r\n\r\n`],
    ['is HTTP/2', 'HTTP/2.0 200 OK\r\n\r\n'],
    ['is no HTTP', 'SSH-2.0-OpenSSH_9.6\r\n'],
    ['has a status of two digits', 'HTTP/1.1 20 OK\r\n\r\n'],
    ['upgrades', 'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n'],
    ['has a head that is too large', `${ok}a: ${'b'.repeat(headBytesMax)}\r\n\r\n`],
    ['has a head without an end', `${ok}${'a: b\r\n'.repeat(6_000)}`],
    ['has too many headers', `${ok}${'a: b\r\n'.repeat(300)}\r\n`],
    ['sends 1xx without end', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(2_000)],
    ['has a chunk without a size', `${ok}transfer-encoding: chunked\r\n\r\n\r\n`],
    ['has a chunk of a negative size', `${ok}transfer-encoding: chunked\r\n\r\n-1\r\n`],
    ['has a chunk that is too large', `${ok}transfer-encoding: chunked\r\n\r\n1234567890abc\r\n`],
    ['has a chunk longer than its size', `${ok}transfer-encoding: chunked\r\n\r\n1\r\nab\r\n`],
    ['ends a size with LF', `${ok}transfer-encoding: chunked\r\n\r\n1\na\r\n`],
    ['has a long extension', `${ok}transfer-encoding: chunked\r\n\r\n1;${'e'.repeat(2_000)}\r\n`],
    ['has LF in an extension', `${ok}transfer-encoding: chunked\r\n\r\n1;a\nb\r\n`],
    ['folds a trailer', `${ok}transfer-encoding: chunked\r\n\r\n0\r\na: b\r\n c\r\n\r\n`],
    ['has too many trailers', `${ok}transfer-encoding: chunked\r\n\r\n0\r\n${'a: b\r\n'.repeat(6_000)}`],
  ])('%s, whole or byte by byte', (_what, answer) => {
    expect(() => read(answer)).toThrow(ProtocolError);
    expect(() => read(answer, [1])).toThrow(ProtocolError);
  });
});

test('what stands around chunks does not stay in memory with them', () => {
  const parser = new ResponseParser();
  parser.push(Buffer.from(`${ok}transfer-encoding: chunked\r\n\r\n`));
  const piece = Buffer.from(`1;${'e'.repeat(1_000)}\r\na\r\n`.repeat(64));
  const body: Buffer[] = [];
  for (let count = 0; count < 100; count += 1) {
    parser.push(piece);
    body.push(parser.data);
  }
  expect(Buffer.concat(body).toString()).toBe('a'.repeat(6_400));
  const held = [...new Set(body.map(({ buffer }) => buffer))].reduce((bytes, { byteLength }) => bytes + byteLength, 0);
  // Small buffers share a larger one.
  expect(held).toBeLessThan(4 * Buffer.poolSize);
});

test('the pieces of a body of known length are contiguous in one buffer', () => {
  const parser = new ResponseParser();
  const pieces = ['content-length: 9\r\n\r\nab', 'cdef', 'ghi'].map((text, index) => {
    parser.push(Buffer.from(index === 0 ? ok + text : text));
    return parser.data;
  });
  expect(parser.done).toBe(true);
  const [first] = pieces as [Buffer];
  expect(Buffer.from(first.buffer, first.byteOffset, 9).toString()).toBe('abcdefghi');
  expect(pieces.map((piece) => piece.toString())).toEqual(['ab', 'cdef', 'ghi']);
});

describe('the connection is not reused after an answer that', () => {
  test.each<[string, string]>([
    ['says close', `${ok}connection: Foo, Close\r\ncontent-length: 0\r\n\r\n`],
    ['is HTTP/1.0', 'HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n'],
    ['promises a body where none is allowed', 'HTTP/1.1 204 No Content\r\ncontent-length: 3\r\n\r\n'],
    ['ends with the connection', `${ok}\r\nabc`],
  ])('%s', (_what, answer) => {
    expect(read(answer).head).toMatchObject({ keepsAlive: false });
  });

  test('has bytes after its end', () => {
    expect(read(`${ok}content-length: 1\r\n\r\nab`).parser).toMatchObject({ done: true, surplus: true });
  });
});

const token = fc.stringMatching(/^[A-Za-z][A-Za-z0-9-]{0,20}$/);
const value = fc.stringMatching(/^[!-~]([ -~]{0,40}[!-~])?$/);
const framingNames = new Set(['content-length', 'transfer-encoding', 'connection', 'keep-alive']);
const fields = fc.uniqueArray(
  fc.tuple(
    token.filter((name) => !framingNames.has(name.toLowerCase())),
    value,
  ),
  { maxLength: 8, selector: ([name]) => name.toLowerCase() },
);
const chunks = fc.array(fc.string({ unit: 'binary-ascii', minLength: 1, maxLength: 50 }), { maxLength: 6 });
const extension = fc.constantFrom('', '', ';a', ' ;a=b', ';a="b c"');
const trailers = fc.constantFrom('', '', 'x-sum: 1\r\n', 'a:\r\nb: c\r\n');
const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 8 });

test(
  'any valid answer, split anywhere, has its head and body read as they were written',
  () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 200, max: 599 }).filter((status) => status !== 204 && status !== 304),
        fields,
        chunks,
        fc.constantFrom('length', 'chunked', 'close'),
        extension,
        trailers,
        fc.boolean(),
        sizes,
        (status, names, parts, kind, extended, trailing, continued, split) => {
          const body = parts.join('');
          const framing = {
            length: `content-length: ${body.length}\r\n`,
            chunked: 'Transfer-Encoding: Chunked\r\n',
            close: '',
          };
          const written = {
            length: body,
            close: body,
            chunked: `${parts.map((part) => `${part.length.toString(16)}${extended}\r\n${part}\r\n`).join('')}0\r\n${trailing}\r\n`,
          };
          const head = `HTTP/1.1 ${status} Any\r\n${names.map(([name, text]) => `${name}: ${text}\r\n`).join('')}${framing[kind]}\r\n`;
          const answer = read(
            `${continued ? 'HTTP/1.1 103 Early\r\nlink: x\r\n\r\n' : ''}${head}${written[kind]}`,
            split,
          );
          expect(answer.head?.status).toBe(status);
          for (const [name, text] of names) expect(answer.head!.header(name.toLowerCase())).toBe(text);
          expect(answer.body).toBe(body);
          expect([answer.done, answer.parser.doneAtClose, answer.parser.surplus]).toEqual([
            kind !== 'close',
            true,
            false,
          ]);
        },
      ),
      trials,
    );
  },
  trialTimeoutMs,
);

test(
  'garbage is refused or read, the same wherever it is split, and nothing else is thrown',
  () => {
    const noise = fc.constantFrom(
      ...[
        'HTTP/1.1 200 OK',
        'HTTP/1.',
        '\r\n',
        '\r\n\r\n',
        '\n',
        '\r',
        'content-length: 5',
        'transfer-encoding: chunked',
      ],
      ...['5', '0', 'a', ';', ':', ' ', 'ffff', '\0', 'x: y', '100', 'é'],
    );
    const outcome = (text: string, split?: readonly number[]) => {
      try {
        const { head, body, done } = read(text, split);
        return [head?.status, body, done];
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error;
        return 'refused';
      }
    };
    fc.assert(
      fc.property(fc.constantFrom('', ok), fc.array(noise, { maxLength: 20 }), sizes, (start, pieces, split) => {
        const text = start + pieces.join('');
        const split1 = outcome(text, [1]);
        expect(outcome(text, split)).toEqual(split1);
      }),
      trials,
    );
  },
  trialTimeoutMs,
);
