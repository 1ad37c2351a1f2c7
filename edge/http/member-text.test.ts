import { expect, test } from 'vitest';
import { memberText } from './member-text.ts';

test.each([
  ['{"body":{"seed":9007199254740993}}', '{"seed":9007199254740993}'],
  ['{"endpoint":"/v1/a", "body" : { "n": 1e400, "t": [1.0, "}"] } }', '{ "n": 1e400, "t": [1.0, "}"] }'],
  ['{"body":\n{"body":1},"endpoint":"a"}', '{"body":1}'],
  ['{"a":{"body":1},"b":[{"body":2}],"body":{}}', '{}'],
  ['{"\\u0062ody":{"t":"\\\\\\",\\"body\\":{"},"z":"\\\\"}', '{"t":"\\\\\\",\\"body\\":{"}'],
  ['{"text":"\\"body\\":{}"}', undefined],
  ['{}', undefined],
])('the text of the member `body` in %s is %s', (text, expected) => {
  expect(memberText(text, 'body')).toBe(expected);
});
