import { setTimeout as delay } from 'node:timers/promises';
import type { CallOptions } from '@connectrpc/connect';
import { expect, test } from 'vitest';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { startTestAuth } from '../../../test/support/auth.ts';
import { asTableOwner, operatorOf } from '../../../test/support/people.ts';
import { logCollector } from '../../../test/support/rpc-carriers.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

test('while Keys cannot be told that an organization is suspended, and later when it was, the log says so', async () => {
  const { lines, logger } = logCollector('info');
  let isAway = true;
  const keys = {
    refreshPrincipals: async () => {
      if (isAway) throw gatewayError(ErrorReason.OVERLOADED, 'away');
      return {} as never;
    },
  };
  await using fixture = await startTestAuth({ keys, logger });
  const { tenantId } = fixture.owner;
  await expect(fixture.auth.suspendOrganization({ tenantId }, operatorOf(fixture))).rejects.toThrow('away');
  const line = (text: string) => lines.find(({ msg }) => String(msg).includes(text));
  const told = 'telling Keys about users and organizations';
  const warning = await waitFor(() => line(`${told} failed`), { description: 'the warning' });
  expect(warning).toMatchObject({ level: 40, err: { message: 'away' } });
  isAway = false;
  await waitFor(() => line(`${told} works again`), { description: 'the news that it works' });
});

test('a stop does not wait for Keys, which may be waiting for edges', async () => {
  const asked = Promise.withResolvers<void>();
  const keys = {
    refreshPrincipals: (_request: object, { signal }: CallOptions = {}) => {
      asked.resolve();
      return new Promise<never>((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
    },
  };
  const fixture = await startTestAuth({ keys });
  const text = `insert into key_refreshes (version, kind, subject_id) values (1, 'tenant', $1)`;
  await asTableOwner(fixture, text, [fixture.owner.tenantId]);
  await asked.promise;
  const closing = fixture.close().then(() => 'closed');
  expect(await Promise.race([closing, delay(5_000, 'still waiting', { ref: false })])).toBe('closed');
});
