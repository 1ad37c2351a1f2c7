import fc from 'fast-check';
import { expect, test } from 'vitest';
import { duplicateMember } from './duplicate-member.ts';

test.each([
  ['{"a":1,"a":2}', 'a'],
  ['{"a":1,"\\u0061":2}', 'a'],
  ['{"":1,"":1}', ''],
  ['{ "a" : [ { "b" : 1 , "c" : { "b" : 2 } , "b" : 3 } ] }', 'b'],
  ['[{"x":1},{"x":1,"y":"\\"x\\":{","x":2}]', 'x'],
  ['{"a\\\\":1,"b":"\\\\","a\\\\":2}', 'a\\'],
  ['{"__proto__":1,"__proto__":2}', '__proto__'],
])('%s has a member twice', (text, name) => {
  expect(() => JSON.parse(text)).not.toThrow();
  expect(duplicateMember(text)).toBe(name);
});

test('whatever a program writes has no duplicate member', () => {
  fc.assert(fc.property(fc.json(), (text) => duplicateMember(text) === undefined));
});

test('a duplicate member is found wherever it is and whatever is around it', () => {
  const neighbours = fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 5 });
  fc.assert(
    fc.property(fc.string(), neighbours, fc.jsonValue(), (name, others, value) => {
      const member = `${JSON.stringify(name)}:${JSON.stringify(value)}`;
      const between = Object.entries(others)
        .filter(([other]) => other !== name)
        .map(([other, inner]) => `${JSON.stringify(other)}:${JSON.stringify(inner)}`);
      const text = `[{"within":{${[member, ...between, member].join(',')}}}]`;
      expect(duplicateMember(text)).toBe(name);
    }),
  );
});

test('text that is deeply nested or full of quotes takes linear time', () => {
  const texts = [
    `${'['.repeat(500_000)}${']'.repeat(500_000)}`,
    `["${'\\\\'.repeat(500_000)}"]`,
    `["${'\\"'.repeat(500_000)}"]`,
    `[${'"",'.repeat(300_000)}0]`,
  ];
  const startMs = performance.now();
  for (const text of texts) expect(duplicateMember(text)).toBeUndefined();
  // Each takes a few milliseconds; in quadratic time it would be minutes.
  expect(performance.now() - startMs).toBeLessThan(5_000);
});
