import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { objectText, trials, trialTimeoutMs, writtenMembers } from './fixtures/json-text.ts';
import { fieldSet, scanObject } from './json-scan.ts';
import { asksForUsage, includeUsageEdit, type MemberEdit, spliceMembers } from './splice.ts';

const names = ['model', 'stream', 'stream_options', 'n', 'max_tokens', 'background'] as const;
const fields = fieldSet(...names);

function scanned(json: string) {
  const scan = scanObject(Buffer.from(json), fields);
  if (typeof scan === 'string') throw new Error(scan);
  return scan;
}

const joined = (pieces: readonly Uint8Array[]): string => Buffer.concat(pieces).toString();

const withoutRepeats = writtenMembers(names).map((members) => {
  const seen = new Set<string>();
  return members.filter(({ name }) => !seen.has(name) && seen.add(name));
});
const edits = fc
  .uniqueArray(fc.tuple(fc.constantFrom(...names), fc.option(fc.json(), { freq: 2 })), { selector: ([name]) => name })
  .map((edits): MemberEdit<(typeof names)[number]>[] =>
    edits.map(([name, value], index) => [name, value === null || index % 2 === 0 ? value : Buffer.from(value)]),
  );

test(
  'edited documents parse to the edited object, and every other member keeps its bytes and its place',
  () => {
    fc.assert(
      fc.property(objectText(withoutRepeats), edits, ({ text, members }, edits) => {
        const pieces = spliceMembers(scanned(text), edits);
        const edited = joined(pieces);
        const expected = new Map(members.map(({ name, valueText }) => [name, valueText]));
        for (const [name, value] of edits) {
          if (value === null) expected.delete(name);
          else expected.set(name, Buffer.from(value as Uint8Array).toString());
        }
        const value = JSON.parse(edited) as Record<string, unknown>;
        expect(Object.keys(value).sort()).toEqual([...expected.keys()].sort());
        for (const [name, valueText] of expected) {
          expect(JSON.stringify(Object.getOwnPropertyDescriptor(value, name)?.value)).toBe(
            JSON.stringify(JSON.parse(valueText)),
          );
        }
        let from = 0;
        for (const { name, nameText, valueText } of members) {
          if (edits.some(([edit]) => edit === name)) continue;
          from = edited.indexOf(nameText, from) + nameText.length;
          expect(from).toBeGreaterThanOrEqual(nameText.length);
          expect(edited.indexOf(valueText, from)).toBeGreaterThanOrEqual(from);
        }
      }),
      trials,
    );
  },
  trialTimeoutMs,
);

test('a prompt of a megabyte is not copied', () => {
  const scan = scanned(`{"model":"m","messages":"${'x'.repeat(1_000_000)}","background":true}`);
  const pieces = spliceMembers(scan, [
    ['model', '"other"'],
    ['background', null],
  ]);
  expect(pieces.filter((piece) => piece.buffer === scan.bytes.buffer && piece.length > 1_000_000)).toHaveLength(1);
  expect(joined(pieces)).toMatch(/^\{"model":"other","messages":"x+"\}$/);
});

test('a duplicate member is not edited', () => {
  expect(() => spliceMembers(scanned('{"n":1,"n":2}'), [['n', '3']])).toThrow(TypeError);
});

describe('the usage chunk is requested', () => {
  test.each([
    ['{"model":"m"}', '{"stream_options":{"include_usage":true},"model":"m"}'],
    ['{}', '{"stream_options":{"include_usage":true}}'],
    ['{"stream_options":null}', '{"stream_options":{"include_usage":true}}'],
    ['{"stream_options":{}}', '{"stream_options":{"include_usage":true}}'],
    ['{"stream_options": { "x" : 1 } }', '{"stream_options": {"include_usage":true, "x" : 1 } }'],
    ['{"stream_options":{"include_usage":false,"x":1}}', '{"stream_options":{"include_usage":true,"x":1}}'],
    ['{"stream_options":{"x":1,"include_usage":null}}', '{"stream_options":{"x":1,"include_usage":true}}'],
    [
      '{"stream_options":{"include_usage":false,"Include_usage":false,"x":1}}',
      '{"stream_options":{"x":1,"include_usage":true}}',
    ],
  ])('%s → %s', (json, expected) => {
    const scan = scanned(json);
    expect(asksForUsage(scan)).toBe(false);
    const edit = includeUsageEdit(scan);
    expect(edit).not.toBeNull();
    expect(joined(spliceMembers(scan, [edit!]))).toBe(expected);
  });

  test('but not again, nor if the upstream will refuse the request', () => {
    expect(asksForUsage(scanned('{"stream_options":{"include_usage":true}}'))).toBe(true);
    expect(includeUsageEdit(scanned('{"stream_options":{"include_usage":true}}'))).toBeNull();
    expect(includeUsageEdit(scanned('{"stream_options":"yes"}'))).toBeNull();
  });
});
