import { expect, test } from 'vitest';
import { ErrorReason, gatewayError, internalError } from './errors.ts';
import { createLogger } from './logger.ts';

function logged(fields: object): string {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  createLogger({ level: 'info', name: 'test', destination }).info(fields, 'said');
  return lines.join('');
}

test('an error is logged by its name and where it happened, with its cause, and without anything attached to it', () => {
  const cause = Object.assign(new Error('division by zero'), {
    code: '22012',
    client: { _activeQuery: { values: ['a digest of somebody'] }, connectionParameters: { host: '/somewhere' } },
  });
  const line = logged({
    err: Object.assign(new Error('it broke', { cause }), { code: 'E1', params: ['a digest of somebody'] }),
  });
  const { err } = JSON.parse(line);
  expect(err).toEqual({
    type: 'Error',
    message: 'it broke: division by zero',
    stack: expect.any(String),
    code: 'E1',
  });
  expect(err.stack).toMatch(/it broke.*logger\.test\.ts.*caused by: Error: division by zero/s);
  expect(line).not.toMatch(/digest of somebody|somewhere/);
  expect(JSON.parse(logged({ err: cause })).err.code).toBe('22012');
});

test('a refusal and a lost connection are logged without a stack, and with what operators need to know', () => {
  const refused = Object.assign(new Error('connect ECONNREFUSED 10.0.0.5:8081'), {
    code: 'ECONNREFUSED',
    syscall: 'connect',
  });
  const outOfReach = gatewayError(ErrorReason.OVERLOADED, 'Try again.', {
    internal: 'http://10.0.0.5:8081',
    cause: refused,
  });
  const errOf = (err: Error) => JSON.parse(logged({ err })).err;
  expect(errOf(outOfReach)).toEqual({
    type: 'GatewayError',
    reason: 'OVERLOADED',
    message: 'Try again.',
    internal: 'http://10.0.0.5:8081',
  });
  expect(errOf(refused)).toMatchObject({ message: refused.message, code: 'ECONNREFUSED' });
  expect(errOf(refused)).not.toHaveProperty('stack');
  expect(errOf(internalError(new Error('a fault of ours'))).stack).toContain('a fault of ours');
});

test('secrets issued by the gateway never reach a line, wherever they occur', () => {
  const key = `sk-proj-${'a1B2'.repeat(12)}`;
  const line = logged({
    err: new Error(`refused ${key}`),
    nested: { password: 'hunter22' },
    note: `eyJhbGciOi.eyJzdWIi.c2ln`,
  });
  expect(line).not.toMatch(/a1B2a1B2|hunter22|c2ln/);
  expect(line).toContain('sk-proj-a1B2[removed]');
});

test('what a client sends neither moves the cursor of a terminal nor turns a line round, and can be read from it', () => {
  const model = 'a\u001b[2J\u009b2J\u202eb\u2028\u007f';
  const line = logged({ model });
  expect(line.trimEnd()).toMatch(/^[\x20-\x7e]+$/);
  expect(JSON.parse(line).model).toBe(model);
});

test("fields named like secrets are removed from a line and from nested fields, in any case, and from a child's fields", () => {
  const secret = 'hunter22';
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const logger = createLogger({ level: 'info', name: 'test', destination });
  const names = ['authorization', 'cookie', 'password', 'token', 'access_token', 'refresh_token', 'key', 'secret'];
  for (const name of [...names, 'apiKey', 'api_key', 'Authorization']) logger.child({ [name]: secret }).info('said');
  for (const name of [...names, 'apiKey', 'api_key', 'Authorization', 'ApiKey', 'COOKIE', 'apikey']) {
    const held = { [name]: secret, kept: 'kept' };
    const within = { held, deeper: { held, list: [held, 'kept'] } };
    logger.info(
      { ...held, ...within, [name]: { held: secret }, failure: Object.assign(new Error('it'), held) },
      'said',
    );
    logger.info(held, 'said');
    // The logged object itself is unchanged.
    expect(within.deeper.list[0]).toEqual({ [name]: secret, kept: 'kept' });
  }
  expect(lines.join('')).not.toContain(secret);
  expect(JSON.parse(lines[11]!)).toMatchObject({ deeper: { list: [{ kept: 'kept' }, 'kept'] } });
});
