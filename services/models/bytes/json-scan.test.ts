import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { mutate, mutation, objectText, trials, trialTimeoutMs, writtenMembers } from './fixtures/json-text.ts';
import { clientLimits, fieldSet, ObjectScan, scanObject } from './json-scan.ts';

const names = ['model', 'stream', 'stream_options', 'n', 'max_tokens', 'background'] as const;
const fields = fieldSet(...names);
const text = (json: string) => scanObject(Buffer.from(json), fields);

/** What JSON.parse makes of the bytes; undefined if they are not an object. */
function parsed(bytes: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** Fails unless the scanner agrees with JSON.parse about the bytes. Expect is too slow for a million documents. */
function compare(bytes: Buffer): void {
  const scan = scanObject(bytes, fields);
  const value = parsed(bytes);
  if (typeof scan === 'string') {
    if (value !== undefined) throw new Error(`refused (${scan}) what JSON.parse accepts: ${bytes}`);
    return;
  }
  if (value === undefined) throw new Error(`accepted what JSON.parse refuses: ${bytes}`);
  for (const name of names) {
    const wanted = Object.hasOwn(value, name) ? value[name] : undefined;
    const same =
      JSON.stringify(scan.json(name)) === JSON.stringify(wanted) &&
      Object.is(scan.string(name), typeof wanted === 'string' ? wanted : undefined) &&
      Object.is(scan.number(name), typeof wanted === 'number' ? wanted : undefined) &&
      Object.is(scan.boolean(name), typeof wanted === 'boolean' ? wanted : undefined) &&
      scan.kind(name) === kindOf(wanted);
    if (!same) throw new Error(`${name} differs in ${bytes}`);
  }
}

function kindOf(value: unknown): string | undefined {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return value === undefined ? undefined : typeof value;
}

const documents = objectText(writtenMembers(names));

test(
  'the wanted members of any document have the values that JSON.parse gives, and duplicates are reported',
  () => {
    fc.assert(
      fc.property(documents, ({ text, members }) => {
        const bytes = Buffer.from(text);
        compare(bytes);
        const scan = scanObject(bytes, fields);
        if (typeof scan === 'string') throw new Error(scan);
        if (scan.memberCount !== members.length) throw new Error('miscounted');
        let ambiguous = false;
        for (const name of names) {
          const alike = members.filter((member) => member.name.toUpperCase().toLowerCase() === name);
          const same = alike.filter((member) => member.name === name);
          if (scan.duplicate(name) !== same.length > 1) throw new Error(`duplicate ${name}`);
          ambiguous ||= alike.length > 1 || alike.length > same.length;
        }
        if ((scan.ambiguous !== null) !== ambiguous) throw new Error('ambiguous');
      }),
      trials,
    );
  },
  trialTimeoutMs,
);

test(
  'a damaged document is refused exactly when JSON.parse refuses it',
  () => {
    fc.assert(
      fc.property(documents, fc.array(mutation, { minLength: 1, maxLength: 3 }), ({ text }, mutations) => {
        compare(mutations.reduce(mutate, Buffer.from(text)));
      }),
      trials,
    );
  },
  trialTimeoutMs,
);

const item = fc.oneof(
  { weight: 9, arbitrary: objectText(writtenMembers(['model', 'n'])).map(({ text }) => text) },
  { weight: 1, arbitrary: fc.constantFrom('1', '[]', '[{}]', '"{}"', 'null') },
);
const list = fc.oneof(
  { weight: 9, arbitrary: fc.array(item, { maxLength: 5 }).map((items) => `[ ${items.join(' ,')} ]`) },
  { weight: 1, arbitrary: fc.constantFrom('[]', '{}', 'null', '"[]"', '[{}') },
);
const documentWithLists = fc
  .array(fc.tuple(fc.constantFrom('list', 'list', 'other', 'List'), list), { maxLength: 3 })
  .map((members) => `{${members.map(([name, value]) => `"${name}": ${value}`).join(',')}}`);

test(
  'the objects of a list are read along the way, whole or damaged, as by a separate walk and JSON.parse',
  () => {
    const itemFields = fieldSet('model', 'n');
    fc.assert(
      fc.property(documentWithLists, fc.array(mutation, { maxLength: 2 }), (text, mutations) => {
        const bytes = mutations.reduce(mutate, Buffer.from(text));
        const plain = new ObjectScan(fieldSet('list'));
        const items = new ObjectScan(itemFields);
        let seen: unknown[] = [];
        const scan = new ObjectScan(fieldSet('list'), {
          in: 'list',
          scan: items,
          take(place) {
            // If a list occurs twice, the last one counts.
            if (place === 0) seen = [];
            if (seen.length !== place) throw new Error('miscounted');
            seen.push([items.json('model'), items.json('n')]);
          },
        });
        const problem = scan.read(bytes);
        if ((problem === null) !== (plain.read(bytes) === null)) throw new Error('accepted by one only');
        if (problem !== null) return;
        const value = scan.json('list');
        const areObjects = Array.isArray(value) && value.every((one) => kindOf(one) === 'object');
        if (scan.itemCount !== (areObjects ? value.length : -1)) throw new Error(`counted ${scan.itemCount}`);
        if (!areObjects || value.length === 0) return;
        const wanted = value.map((one) =>
          ['model', 'n'].map((name) => (Object.hasOwn(one, name) ? one[name] : undefined)),
        );
        if (JSON.stringify(seen) !== JSON.stringify(wanted)) throw new Error('read otherwise');
      }),
      trials,
    );
  },
  trialTimeoutMs,
);

test('any byte at any place of a string is judged as by JSON.parse, however long the string', () => {
  for (const length of [1, 15, 16, 17, 31, 33, 47, 48, 49, 1039, 1040, 1041, 1042, 5200, 5300, 90_000]) {
    const whole = Buffer.from(`{"n":1,"model":"${'a'.repeat(length)}"}`);
    const first = whole.indexOf('"aa') + 1 || whole.indexOf('"a"') + 1;
    const places = new Set([0, 1, 15, 16, 17, 1022, 1023, 1024, 1025, 5119, 5120, length - 2, length - 1]);
    for (const place of places) {
      if (place < 0 || place >= length) continue;
      for (const byte of [0x00, 0x1f, 0x20, 0x21, 0x22, 0x23, 0x5b, 0x5c, 0x5d, 0x7f, 0x80, 0xff]) {
        const changed = Buffer.from(whole);
        changed[first + place] = byte;
        compare(changed);
      }
      for (const written of ['\\n', '\\"', '\\\\', '\\u00e9', '\\u00g9', '\\x', '\\u12']) {
        const changed = Buffer.from(whole);
        changed.write(written, first + place);
        compare(changed);
      }
    }
  }
});

test('the same buffer with other bytes is read anew', () => {
  const pooled = Buffer.from(`{"model":"${'a'.repeat(100)}"}`);
  expect(typeof scanObject(pooled, fields)).toBe('object');
  pooled[60] = 0x0a;
  expect(scanObject(pooled, fields)).toBe('syntax');
});

describe('a document is refused', () => {
  test.each([
    ['', 'syntax'],
    ['  ', 'syntax'],
    ['[]', 'not_object'],
    ['"a"', 'not_object'],
    [' 12 ', 'not_object'],
    ['null', 'not_object'],
    ['[', 'syntax'],
    ['\ufeff{}', 'syntax'],
    ['{}{}', 'syntax'],
    ['{} x', 'syntax'],
    ['{"a":1,}', 'syntax'],
    ['{,"a":1}', 'syntax'],
    ['{"a" 1}', 'syntax'],
    ["{'a':1}", 'syntax'],
    ['{"a":01}', 'syntax'],
    ['{"a":+1}', 'syntax'],
    ['{"a":.5}', 'syntax'],
    ['{"a":1.}', 'syntax'],
    ['{"a":1e}', 'syntax'],
    ['{"a":-}', 'syntax'],
    ['{"a":NaN}', 'syntax'],
    ['{"a":truE}', 'syntax'],
    ['{"a":[1,]}', 'syntax'],
    ['{"a":[}]}', 'syntax'],
    ['{"a":{"b"}}', 'syntax'],
    ['{"a":"\u0001"}', 'syntax'],
    ['{"a":"line\nbreak"}', 'syntax'],
    ['{"a":"\\x"}', 'syntax'],
    ['{"a":"\\u12"}', 'syntax'],
    ['{"a":1}/*c*/', 'syntax'],
    ['{"a":1\u00a0}', 'syntax'],
    ['\f{}', 'syntax'],
  ])('%j: %s', (json, problem) => {
    expect(text(json)).toBe(problem);
    compare(Buffer.from(json));
  });

  test('that is not UTF-8', () => {
    for (const bytes of [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xe2, 0x82]]) {
      const body = Buffer.concat([Buffer.from('{"model":"'), Buffer.from(bytes), Buffer.from('"}')]);
      expect(scanObject(body, fields)).toBe('encoding');
    }
  });

  test('that is nested 100,000 deep, quickly and without overflowing the stack', () => {
    for (const [open, close] of [
      ['[', ']'],
      ['{"a":', '}'],
    ] as const) {
      const nested = (depth: number) => `{"model":"m","a":${open.repeat(depth)}1${close.repeat(depth)}}`;
      expect(text(nested(100_000))).toBe('depth');
      expect(text(nested(1_001))).toBe('depth');
      expect(text(nested(1_000))).toMatchObject({ memberCount: 2 });
    }
  });
});

describe('members and elements', () => {
  const { names, elements } = clientLimits;
  const members = (count: number) => Array.from({ length: count }, (_, index) => `"k${index}":${index}`).join(',');

  test('are read up to the limit, including those of inner objects', () => {
    const scan = text(`{${members(names - 1)},"model":"last"}`);
    expect(typeof scan === 'object' && scan.string('model')).toBe('last');
    expect(text(`{${members(names)},"model":"last"}`)).toBe('size');
    expect(text(`{"model":"m","a":[{${members(names - 2)}}]}`)).toMatchObject({ memberCount: 2 });
    expect(text(`{"model":"m","a":[{${members(names - 1)}}]}`)).toBe('size');
    const list = (commas: number) => `{"model":"m","a":[[${'0,'.repeat(commas)}0]],"b":{"c":[0]}}`;
    expect(text(list(elements))).toMatchObject({ memberCount: 3 });
    expect(text(list(elements + 1))).toBe('size');
  });

  test.each([
    ['a million of them', `{${members(1_000_000)}}`],
    ['a million of them within', `{"model":"m","a":{${members(1_000_000)}}}`],
    ['a million objects', `{"model":"m","a":[${'{"a":0},'.repeat(1_000_000)}0]}`],
    ['16 million numbers', `{"model":"m","a":[${'0,'.repeat(16_000_000)}0]}`],
    ['ten million lists', `{"model":"m","a":[${'[],'.repeat(10_000_000)}0]}`],
  ])('hold up the event loop for less than 100 ms: %s', (_what, json) => {
    const body = Buffer.from(json);
    // Other work slows the processor down, so the fastest of several tries counts.
    let quickestMs = Number.POSITIVE_INFINITY;
    for (let attempt = 0; attempt < 20 && quickestMs >= 100; attempt++) {
      const before = process.cpuUsage();
      expect(scanObject(body, fields)).toBe('size');
      const { user, system } = process.cpuUsage(before);
      quickestMs = Math.min(quickestMs, (user + system) / 1_000);
    }
    expect(quickestMs).toBeLessThan(100);
  });

  test('of an answer are read, however many', () => {
    const body = Buffer.from(`{${members(names + 1)},"a":[${'0,'.repeat(elements + 1)}0]}`);
    expect(new ObjectScan(fields).read(body)).toBeNull();
  });
});

test('numbers out of range are what JSON.parse makes of them', () => {
  const scan = text('{"n":1e400,"max_tokens":-0}');
  expect(typeof scan === 'object' && [scan.number('n'), scan.number('max_tokens')]).toEqual([Infinity, -0]);
});

describe('a name that parsers read differently is reported', () => {
  test.each([
    '{"model":"a","model":"b"}',
    '{"model":"a","\\u006dodel":"b"}',
    '{"model":"a","Model":"b"}',
    '{"MODEL":"b"}',
    '{"\u017ftream":true}',
    '{"\\u017ftream":true}',
    '{"bac\u212aground":true}',
  ])('%s', (json) => {
    const scan = text(json);
    expect(typeof scan === 'object' && scan.ambiguous).toBeTruthy();
  });

  test('but not a name inside another value', () => {
    const scan = text('{"model":"a","messages":[{"model":"b","Model":"c"}],"user":"\\"model\\":\\"d\\""}');
    expect(scan).toMatchObject({ ambiguous: null });
  });
});

test('asking for a member that was not searched for is an error, not an absence', () => {
  const scan = text('{}');
  expect(() => typeof scan === 'object' && scan.string('user' as 'model')).toThrow(TypeError);
});
