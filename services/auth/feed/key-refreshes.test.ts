import { expect, test } from 'vitest';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { startTestAuth } from '../../../test/support/auth.ts';
import { operatorOf } from '../../../test/support/people.ts';
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
