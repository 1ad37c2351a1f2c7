import { expect, test } from 'vitest';
import { createLogger } from '#shared/logger.ts';
import { startTestAuth } from '../../../test/support/auth.ts';

test('a start with another SERVICE_SECRET says so, one with the same or with both says nothing', async () => {
  await using first = await startTestAuth({ serviceSecrets: ['the first secret, long enough'] });
  const { database } = first;
  const toldAt = async (...serviceSecrets: string[]) => {
    const lines: string[] = [];
    const logger = createLogger({
      level: 'warn',
      name: 'auth',
      destination: { write: (line) => void lines.push(line) },
    });
    const auth = await startTestAuth({ database, serviceSecrets, logger });
    await auth.close();
    return lines.map((line) => JSON.parse(line).msg);
  };
  expect(await toldAt('the first secret, long enough')).toEqual([]);
  expect(await toldAt('another secret, long enough', 'the first secret, long enough')).toEqual([]);
  const another = expect.stringContaining('SERVICE_SECRET is not the one');
  expect(await toldAt('another secret, long enough')).toEqual([another]);
  // The new signing key is sealed with it.
  expect(await toldAt('another secret, long enough')).toEqual([]);
});
