import { expect, test } from 'vitest';
import { chooseDeployment } from './routing.ts';

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
