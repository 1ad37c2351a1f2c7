import { expect, test, vi } from 'vitest';
import { waitFor } from '../../test/support/wait-for.ts';
import { startRecurringWork, startRecurringWorks } from './recurring-work.ts';

const logger = () => ({ debug: vi.fn(), info: vi.fn(), warn: vi.fn() });
const hourMs = 3_600_000;

/** Rounds that last until released. */
function heldRounds() {
  const held: PromiseWithResolvers<void>[] = [];
  const round = (): Promise<void> => {
    const one = Promise.withResolvers<void>();
    held.push(one);
    return one.promise;
  };
  return { held, round };
}

test('the work is done at once and then repeatedly, and rounds that fail are logged and keep no other from being done', async () => {
  let rounds = 0;
  const log = logger();
  const round = async (): Promise<void> => {
    rounds += 1;
    if (rounds === 2 || rounds === 3) throw new Error('a bad day');
  };
  const work = startRecurringWork({ name: 'the test', everyMs: 1, round, logger: log });
  expect(rounds).toBe(1);
  await waitFor(() => rounds > 4, { description: 'rounds after the failed ones' });
  await work.close();
  expect(log.warn.mock.calls).toEqual([
    [{ err: new Error('a bad day'), failures: 2 }, 'the test failed; it will be retried'],
  ]);
});

test('the first round can wait for other services, and what failed waits no day for the next round', async () => {
  vi.useFakeTimers();
  try {
    const round = vi.fn(() => Promise.reject(new Error('a bad day')));
    const work = startRecurringWork({
      name: 'the test',
      everyMs: 24 * hourMs,
      firstAfterMs: 1_000,
      round,
      logger: logger(),
    });
    await vi.advanceTimersByTimeAsync(999);
    expect(round).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(round).toHaveBeenCalledTimes(1);
    round.mockResolvedValue(undefined as never);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(round).toHaveBeenCalledTimes(2);
    await vi.advanceTimersByTimeAsync(23 * hourMs);
    expect(round).toHaveBeenCalledTimes(2);
    await work.close();
  } finally {
    vi.useRealTimers();
  }
});

test('no two rounds run at the same time, however often the work is woken, and waking it meanwhile causes one more', async () => {
  const { held, round } = heldRounds();
  const work = startRecurringWork({ name: 'the test', everyMs: hourMs, round, logger: logger() });
  work.wake();
  work.wake();
  work.wake();
  expect(held).toHaveLength(1);
  held[0]!.resolve();
  await waitFor(() => held.length === 2, { description: 'the round that was asked for' });
  held[1]!.resolve();
  await work.close();
  expect(held).toHaveLength(2);
});

test('closing waits for the round in progress, tells it, and starts no other', async () => {
  const { held, round } = heldRounds();
  const log = logger();
  let told: AbortSignal | undefined;
  const work = startRecurringWork({
    name: 'the test',
    everyMs: 1,
    round: (signal) => {
      told = signal;
      return round();
    },
    logger: log,
  });
  work.wake();
  work.wake();
  let isClosed = false;
  const closed = work.close().then(() => {
    isClosed = true;
  });
  await new Promise(setImmediate);
  expect(isClosed).toBe(false);
  expect(told!.aborted).toBe(true);
  held[0]!.reject(new Error('given up'));
  await closed;
  work.wake();
  expect(held).toHaveLength(1);
  expect(log.warn).not.toHaveBeenCalled();
});

test('waking the work at the very moment a round ends causes another one', async () => {
  for (let turns = 0; turns < 8; turns += 1) {
    const { held, round } = heldRounds();
    const work = startRecurringWork({ name: 'the test', everyMs: hourMs, round, logger: logger() });
    work.wake();
    held[0]!.resolve();
    for (let turn = 0; turn < turns; turn += 1) await null;
    work.wake();
    await waitFor(() => held.length === 2, {
      description: `a round that was asked for ${turns} turns after the first`,
      timeoutMs: 2_000,
    });
    held[1]!.resolve();
    await work.close();
  }
});

test('first rounds of several works begin one after another, and their close waits for all', async () => {
  vi.useFakeTimers();
  try {
    const works = [heldRounds(), heldRounds()];
    const running = startRecurringWorks(
      works.map(({ round }, index) => ({ name: `work ${index}`, everyMs: hourMs, round, logger: logger() })),
    );
    await vi.advanceTimersToNextTimerAsync();
    expect(works.map(({ held }) => held.length)).toEqual([1, 0]);
    await vi.advanceTimersToNextTimerAsync();
    expect(works.map(({ held }) => held.length)).toEqual([1, 1]);
    const ended = vi.fn();
    const closed = running.close().then(ended);
    works[1]!.held[0]!.resolve();
    await vi.advanceTimersByTimeAsync(hourMs);
    expect(ended).not.toHaveBeenCalled();
    works[0]!.held[0]!.resolve();
    await closed;
    expect(works.map(({ held }) => held.length)).toEqual([1, 1]);
  } finally {
    vi.useRealTimers();
  }
});
