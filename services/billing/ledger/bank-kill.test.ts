import { expect, test } from 'vitest';
import { SeededRandom } from '../../../test/support/leases/schedule.ts';
import { type StartedProcess, startProcess } from '../../../test/support/processes.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { customers, operationAt } from '../fixtures/teller.ts';
import { service, startTestBilling } from '../fixtures/test-billing.ts';

const kills = 12;
const tellers = ['anna', 'bert', 'carl'] as const;

/** The operations that a teller reported as done, with their outcomes. */
const heardOf = ({ output }: StartedProcess): [index: number, outcome: string][] =>
  [...output.matchAll(/^(\d+) (done|refused)$/gm)].map(([, index, outcome]) => [Number(index), outcome!]);

test(`after ${kills} kills in the middle of postings every operation has been posted exactly once, in an order that no clock decides`, async () => {
  await using started = await startTestBilling();
  const { billing, database } = started;
  const random = new SeededRandom(20);
  const outcomes = new Map(tellers.map((name) => [name, new Map<number, string>()]));
  let killed = 0;

  const life = (name: (typeof tellers)[number], to: number): StartedProcess => {
    const from = outcomes.get(name)!.size;
    return startProcess({
      script: 'services/billing/fixtures/teller.ts',
      args: [database.url, name, String(from), String(to)],
    });
  };
  const hear = (name: (typeof tellers)[number], teller: StartedProcess): void => {
    for (const [index, outcome] of heardOf(teller)) {
      // What was not reported is posted again: if it was refused for lack of credit it may succeed now, but not the other way round.
      outcomes.get(name)!.set(index, outcome);
    }
  };

  await Promise.all(
    tellers.map(async (name) => {
      for (; killed < kills; ) {
        killed += 1;
        await using teller = life(name, 1_000_000);
        // In the middle of whatever it is doing, after some operations.
        const heard = random.between(1, 8);
        await waitFor(() => heardOf(teller).length >= heard || teller.exit !== null, {
          description: `${name} to post`,
          timeoutMs: 20_000,
          intervalMs: 10,
        });
        expect(teller.exit, teller.output).toBeNull();
        await teller.kill();
        hear(name, teller);
      }
      const to = outcomes.get(name)!.size + 12;
      await using last = life(name, to);
      expect(await last.exited(), last.output).toMatchObject({ code: 0 });
      hear(name, last);
      expect(outcomes.get(name)!.size).toBe(to);
    }),
  );

  let expected = 0n;
  for (const done of outcomes.values()) {
    for (const [index, outcome] of done) {
      const operation = operationAt(index);
      if (operation.kind === 'grant') expected += operation.amountNanoUsd;
      if (operation.kind === 'charge') expected -= operation.costNanoUsd * BigInt(customers.length);
      if (operation.kind === 'take' && outcome === 'done') expected -= operation.amountNanoUsd;
    }
  }
  // What customers have, less what they owe.
  const { rows: balances } = await started.deps.database.pool.query<{ actual: bigint }>(
    'select -sum(wallet + promotional + payg_accrual)::bigint as actual from accounts',
  );
  expect(balances[0]!.actual).toBe(expected);
  const { faults, transactionsChecked } = await billing.verifyLedger({}, service);
  expect(faults).toEqual([]);
  expect(transactionsChecked).toBeGreaterThan(kills);
  // Nobody who was killed holds on to anything.
  const { rows } = await started.deps.database.pool.query<{ held: bigint }>(
    'select coalesce(sum(held_nano_usd), 0)::bigint as held from spend',
  );
  expect(rows[0]!.held).toBe(0n);
});
