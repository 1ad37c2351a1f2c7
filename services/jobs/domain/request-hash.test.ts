import { expect, test } from 'vitest';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { requestHash } from './request-hash.ts';

const of = (contentType: string, body: string, operation: Operation = Operation.COMPLETIONS) =>
  requestHash({ operation, contentType, body: Buffer.from(body) }).toString('hex');

test('different bodies and operations have different hashes', () => {
  expect(of('application/json', '{}')).toBe(of('application/json', '{}'));
  expect(of('application/json', '{}')).not.toBe(of('application/json', '{ }'));
  expect(of('application/json', '{}')).not.toBe(of('application/json', '{}', Operation.CHAT_COMPLETIONS));
});

test('a form has the same hash whatever its boundary, and a different one for any other difference', () => {
  const form = (boundary: string, text: string) =>
    of(`multipart/form-data; boundary=${boundary}`, `--${boundary}\r\n\r\n${text}\r\n--${boundary}--\r\n`);
  expect(form('one', 'a')).toBe(form('quite-another', 'a'));
  expect(form('one', 'a')).not.toBe(form('one', 'b'));
});
