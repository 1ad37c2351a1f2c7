import { expect, test } from 'vitest';
import { requestHash } from './request-hash.ts';

const of = (contentType: string, body: string, endpoint = '/v1/x') =>
  requestHash({ endpoint, contentType, body: Buffer.from(body) }).toString('hex');

test('different bodies and endpoints have different hashes', () => {
  expect(of('application/json', '{}')).toBe(of('application/json', '{}'));
  expect(of('application/json', '{}')).not.toBe(of('application/json', '{ }'));
  expect(of('application/json', '{}')).not.toBe(of('application/json', '{}', '/v1/y'));
});

test('a form has the same hash whatever its boundary, and a different one for any other difference', () => {
  const form = (boundary: string, text: string) =>
    of(`multipart/form-data; boundary=${boundary}`, `--${boundary}\r\n\r\n${text}\r\n--${boundary}--\r\n`);
  expect(form('one', 'a')).toBe(form('quite-another', 'a'));
  expect(form('one', 'a')).not.toBe(form('one', 'b'));
});
