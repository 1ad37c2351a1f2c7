import { expect, test } from 'vitest';
import { startTestGateway } from '../../test/support/gateway.ts';
import { collectGarbage } from '../../test/support/memory.ts';
import { waitFor } from '../../test/support/wait-for.ts';

test('a process keeps nothing of a gateway that was closed in it', async () => {
  const closed = async (): Promise<WeakRef<object>> => {
    await using running = await startTestGateway();
    await running.login();
    return new WeakRef(running.gateway);
  };
  // Node itself keeps the first one: `node:cluster` exports its table of listeners as it was then.
  await closed();
  const second = await closed();
  const isGone = (): boolean => {
    collectGarbage();
    return second.deref() === undefined;
  };
  expect(await waitFor(isGone, { description: 'the second gateway to be collected' })).toBe(true);
});
