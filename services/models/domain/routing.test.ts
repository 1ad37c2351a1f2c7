import { expect, test } from 'vitest';
import { chooseDeployment, Turns } from './routing.ts';

const deployment = (weight: number) => ({
  weight,
  priority: 0,
  concurrencyMax: 100,
  inFlight: 0,
  turn: 0,
  available: true,
  cooling: false,
});

test('calls that run at the same time are shared out by weight', () => {
  const deployments = [deployment(1), deployment(3)];
  for (let call = 0; call < 40; call += 1) chooseDeployment(deployments, new Set())!.inFlight += 1;
  expect(deployments.map(({ inFlight }) => inFlight)).toEqual([10, 30]);
});

test.each([
  { weights: [99, 1], atOnce: 10, calls: 1_000, shares: [990, 10] },
  { weights: [3, 1], atOnce: 2, calls: 400, shares: [300, 100] },
  { weights: [5, 3, 2], atOnce: 4, calls: 1_000, shares: [500, 300, 200] },
])(
  'of calls that follow each other, $atOnce at a time, weights of $weights get their shares',
  ({ weights, ...load }) => {
    const turns = new Turns();
    const deployments = weights.map(deployment);
    const running: (typeof deployments)[number][] = [];
    const started = weights.map(() => 0);
    for (let call = 0; call < load.calls; call += 1) {
      if (running.length === load.atOnce) running.shift()!.inFlight -= 1;
      for (const one of deployments) one.turn = turns.next(one.turn);
      const chosen = chooseDeployment(deployments, new Set())!;
      chosen.inFlight += 1;
      chosen.turn = turns.taken(chosen.turn, chosen.weight);
      running.push(chosen);
      started[deployments.indexOf(chosen)]! += 1;
    }
    for (const [index, share] of load.shares.entries())
      expect(Math.abs(started[index]! - share)).toBeLessThanOrEqual(2);
  },
);

test('a deployment whose calls take longer gets fewer, whatever its weight', () => {
  const [slow, fast] = [deployment(3), deployment(1)];
  slow.inFlight = 30;
  fast.inFlight = 9;
  fast.turn = 1_000;
  expect(chooseDeployment([slow, fast], new Set())).toBe(fast);
});
