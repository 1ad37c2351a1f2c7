import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { beforeEach, describe, expect, test } from 'vitest';
import { SettleResponseSchema } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { type LeaseSettlementSchema, LeaseState, SettledLeaseSchema } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { logCollector } from '../../../test/support/rpc-carriers.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { enter, type HeldLease, hasRoom } from './held-lease.ts';
import { LeaseSettler, timeToLiveMs } from './lease-settler.ts';

const { logger, lines } = logCollector('warn');

let nowMs: number;
/** What Billing was told, and how it answers: as often as not about everything that it was told. */
let told: MessageInitShape<typeof LeaseSettlementSchema>[];
let answer: (one: MessageInitShape<typeof LeaseSettlementSchema>) => MessageInitShape<typeof SettledLeaseSchema>;
/** Resolves when Billing answers; it may stay silent. */
let answering: () => Promise<void>;
let settler: LeaseSettler;
beforeEach(() => {
  nowMs = 1_000_000;
  told = [];
  answering = async () => {};
  answer = held();
  settler = new LeaseSettler({
    billing: {
      async settle({ settlements = [] }) {
        told.push(...settlements);
        await answering();
        return create(SettleResponseSchema, { leases: settlements.map((one) => answer(one)) });
      },
    },
    holderId: 'the edge',
    now: () => nowMs,
    logger,
  });
});

/** Billing leaves the holder this much, for this long. */
const held =
  (heldNanoUsd = 100n, leftMs = timeToLiveMs): typeof answer =>
  ({ leaseId }) =>
    create(SettledLeaseSchema, {
      leaseId,
      state: LeaseState.HELD,
      lease: { heldNanoUsd, timeToLive: { seconds: BigInt(leftMs / 1000) } },
    });

function lease(fields: Partial<HeldLease> = {}): HeldLease {
  const one: HeldLease = {
    id: 'a lease',
    fencingToken: 1n,
    central: false,
    roomNanoUsd: 100n,
    usedNanoUsd: 0n,
    inFlightNanoUsd: 0n,
    callsInFlight: 0,
    expiresMs: nowMs + timeToLiveMs,
    settledMs: nowMs,
    changed: false,
    usedMs: nowMs,
    closing: false,
    ...fields,
  };
  settler.add(one);
  return one;
}

test('a lease admits calls for as long as Billing holds it, counted from before it was requested, and a renewal extends that', async () => {
  const slice = lease();
  nowMs += timeToLiveMs - 1_000;
  slice.usedMs = nowMs;
  answer = (one) => {
    nowMs += 800;
    return held()(one);
  };
  const askedMs = nowMs;
  await settler.settle([slice]);
  expect([hasRoom(slice, 1n, askedMs + timeToLiveMs - 1), hasRoom(slice, 1n, askedMs + timeToLiveMs)]).toEqual([
    true,
    false,
  ]);
  // It is less at the end of the budget's period.
  answer = held(100n, 5_000);
  await settler.settle([slice]);
  expect([hasRoom(slice, 1n, nowMs + 4_999), hasRoom(slice, 1n, nowMs + 5_000)]).toEqual([true, false]);
});

test.each([LeaseState.LAPSED, LeaseState.CLOSED])(
  'nothing more is admitted under a lease that Billing no longer holds (%d), nor is it reported again',
  async (state) => {
    const slice = lease();
    answer = () => ({ state });
    await settler.settle([slice]);
    expect([hasRoom(slice, 1n, nowMs), settler.size]).toEqual([false, 0]);
    await settler.settle([slice]);
    expect(told).toHaveLength(1);
  },
);

test('a slice that has not been used for a while is given back, unless a call still runs under it', async () => {
  const newlyUsed = lease({ id: 'newly used' });
  lease({ id: 'idle' });
  lease({ id: 'in use', inFlightNanoUsd: 5n, callsInFlight: 1 });
  nowMs += timeToLiveMs - 1;
  newlyUsed.usedMs = nowMs;
  await settler.tick();
  expect(told.map(({ leaseId, keep }) => [leaseId, keep])).toEqual([
    ['newly used', true],
    ['idle', false],
    ['in use', true],
  ]);
});

test('room that Billing wants back is free as soon as it hears that nothing more is admitted in it', async () => {
  const slice = lease();
  enter(slice, 10n, nowMs);
  answer = held(40n);
  await settler.settle([slice]);
  expect(told.map(({ roomNanoUsd }) => roomNanoUsd)).toEqual([100n, 40n]);
  expect([hasRoom(slice, 30n, nowMs), hasRoom(slice, 31n, nowMs)]).toEqual([true, false]);
});

test('whoever waits for a settlement waits for no other that comes meanwhile, as with each tick while Billing is silent', async () => {
  const silences: PromiseWithResolvers<void>[] = [];
  answering = () => {
    const silence = Promise.withResolvers<void>();
    silences.push(silence);
    return silence.promise;
  };
  const settled = settler.settle([lease({ central: true, closing: true })]);
  await waitFor(() => silences.length === 1, { description: 'the first call' });
  lease({ id: 'another' });
  void settler.tick();
  silences[0]!.reject(gatewayError(ErrorReason.DEADLINE_EXCEEDED, 'silent'));
  await waitFor(() => silences.length === 2, { description: 'the second call' });
  await settled;
  expect(silences).toHaveLength(2);
});

test('each of a thousand organizations’ slices is kept: Billing answers in time, though each takes it a transaction', async () => {
  const transactionMs = 2;
  const busy = new LeaseSettler({
    billing: {
      async settle({ settlements = [] }, options) {
        // Twice as long, since others ask as well.
        if (settlements.length * transactionMs * 2 > options!.timeoutMs!)
          throw gatewayError(ErrorReason.DEADLINE_EXCEEDED, 'late');
        return create(SettleResponseSchema, { leases: settlements.map((one) => answer(one)) });
      },
    },
    holderId: 'the edge',
    now: () => nowMs,
    logger,
  });
  const slices = Array.from({ length: 1_000 }, (_, index) => lease({ id: `slice ${index}`, callsInFlight: 1 }));
  for (const slice of slices) busy.add(slice);
  nowMs += timeToLiveMs - 1_000;
  await busy.tick();
  expect(slices.filter(({ expiresMs }) => expiresMs !== nowMs + timeToLiveMs)).toEqual([]);
});

test('leases that cannot be given back at the end are logged, with the cause', async () => {
  lease();
  answer = () => {
    throw gatewayError(ErrorReason.OVERLOADED, 'Billing is away.');
  };
  await settler.close();
  expect(lines.at(-1)).toMatchObject({ msg: expect.stringContaining('expire'), err: { message: 'Billing is away.' } });
});

describe('a hold of one call', () => {
  const ticked = async (ms: number): Promise<number> => {
    nowMs += ms;
    const before = told.length;
    await settler.tick();
    return told.length - before;
  };

  test('is kept alive while the call runs, after each third of its time, and not more often', async () => {
    lease({ central: true, callsInFlight: 1, inFlightNanoUsd: 100n });
    expect(await ticked(500)).toBe(0);
    expect(await ticked(timeToLiveMs / 3 - 500)).toBe(1);
    expect(await ticked(500)).toBe(0);
    expect(await ticked(timeToLiveMs / 3 - 500)).toBe(1);
  });

  test('whose use could not be reported to Billing is reported again with the next tick', async () => {
    const hold = lease({ central: true, callsInFlight: 1, inFlightNanoUsd: 100n, changed: true });
    answer = () => {
      throw gatewayError(ErrorReason.OVERLOADED, 'away');
    };
    await settler.settle([hold]);
    answer = held();
    expect(await ticked(1)).toBe(1);
    expect(await ticked(1)).toBe(0);
  });
});
