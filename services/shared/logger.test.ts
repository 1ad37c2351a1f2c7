import { expect, test } from 'vitest';
import { createLogger } from './logger.ts';

function logged(fields: object): string {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  createLogger({ level: 'info', name: 'test', destination }).info(fields, 'said');
  return lines.join('');
}

test('an error is logged by what names it and where it happened, its cause too, and by nothing that hangs on it', () => {
  const cause = Object.assign(new Error('terminating connection'), {
    code: '57P01',
    client: { _activeQuery: { values: ['a digest of somebody'] }, connectionParameters: { host: '/somewhere' } },
  });
  const line = logged({
    err: Object.assign(new Error('it broke', { cause }), { code: 'E1', params: ['a digest of somebody'] }),
  });
  const { err } = JSON.parse(line);
  expect(err).toEqual({
    type: 'Error',
    message: 'it broke: terminating connection',
    stack: expect.any(String),
    code: 'E1',
  });
  expect(err.stack).toMatch(/it broke.*logger\.test\.ts.*caused by: Error: terminating connection/s);
  expect(line).not.toMatch(/digest of somebody|somewhere/);
  expect(JSON.parse(logged({ err: cause })).err.code).toBe('57P01');
});

test('secrets that the gateway issues do not reach a line, wherever they stand', () => {
  const key = `sk-proj-${'a1B2'.repeat(12)}`;
  const line = logged({
    err: new Error(`refused ${key}`),
    nested: { password: 'hunter22' },
    note: `eyJhbGciOi.eyJzdWIi.c2ln`,
  });
  expect(line).not.toMatch(/a1B2a1B2|hunter22|c2ln/);
  expect(line).toContain('sk-proj-a1B2[removed]');
});
