import { setImmediate } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { type CallerConstraints, CallerConstraintsSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import type { ServedModel } from '../catalog/catalog.ts';
import type { Hold } from '../limits/hold.ts';
import { BackendContext } from './backend.ts';
import type { MeteringDeps } from './metered-item.ts';
import { Outbox } from './outbox.ts';

const capped = (spendCapNanoUsd: bigint): CallerConstraints => create(CallerConstraintsSchema, { spendCapNanoUsd });

/** A budget near its limit: it has room for one hold, and answers a turn later, or two, as Billing does. */
function contextNearItsLimit() {
  const held: { cap: bigint | undefined; isOpen: boolean }[] = [];
  const hold = async (_caller: unknown, constraints?: Pick<CallerConstraints, 'spendCapNanoUsd'>): Promise<Hold> => {
    await setImmediate();
    if (held.some(({ isOpen }) => isOpen)) throw new Error('refused');
    const one = { cap: constraints?.spendCapNanoUsd, isOpen: true };
    held.push(one);
    const settle = async (): Promise<void> => {
      for (let turn = 0; turn < 2; turn += 1) await setImmediate();
      one.isOpen = false;
    };
    return { leaseIds: [], costAllowedNanoUsd: null, settle };
  };
  const context = new BackendContext({
    deps: { budgets: { hold }, clock: { now: () => 0 } } as unknown as MeteringDeps,
    caller: {} as Caller,
    constraints: capped(1n),
    model: { prices: [] } as unknown as ServedModel,
    outbox: new Outbox(),
    signal: new AbortController().signal,
    sayUpdated: () => {},
  });
  return { context, held };
}

test('two who make sure at once that an utterance can be paid for share what is held for it', async () => {
  const { context, held } = contextNearItsLimit();
  await Promise.all([context.prepare(), context.prepare()]);
  expect(held).toHaveLength(1);
});

test('who speaks while another cap is taken over waits for the room that it gives back', async () => {
  const { context, held } = contextNearItsLimit();
  await context.prepare();
  await Promise.all([context.constrain(capped(2n)), context.prepare()]);
  expect(held).toEqual([
    { cap: 1n, isOpen: false },
    { cap: 2n, isOpen: true },
  ]);
});

test('a cap that comes while the room under another is asked for is taken over', async () => {
  const { context, held } = contextNearItsLimit();
  await Promise.all([context.prepare(), context.constrain(capped(2n))]);
  expect(held.map(({ cap }) => cap)).toEqual([1n, 2n]);
});

test('the same cap told again gives no room away', async () => {
  const { context, held } = contextNearItsLimit();
  await context.prepare();
  await context.constrain(capped(1n));
  expect(held).toEqual([{ cap: 1n, isOpen: true }]);
});

test('what is still asked for when the session ends is given back', async () => {
  const { context, held } = contextNearItsLimit();
  await Promise.all([context.prepare(), context.close()]);
  expect(held).toEqual([{ cap: 1n, isOpen: false }]);
});
