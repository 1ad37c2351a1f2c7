import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { LeaseResponseSchema } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { rememberUnlimited } from './remember-unlimited.ts';

const request = { tenantId: 'tenant', userId: 'user', apiKeyId: 'key' };

test('that a job was already charged says nothing about the limits of its caller’s other jobs', async () => {
  const answers = [
    { leases: [{ unlimited: true }], isCharged: true },
    { leases: [{ id: 'room' }] },
    { leases: [{ unlimited: true }] },
    { isCharged: true },
  ].map((answer) => create(LeaseResponseSchema, answer));
  const asked = [...answers];
  const nothing = async () => ({}) as never;
  const billing = rememberUnlimited(
    { lease: async () => asked.shift()!, settle: nothing, releaseHold: nothing, voidCharge: nothing },
    { monotonic: () => 0 },
  );
  for (const answer of answers.slice(0, 3)) expect(await billing.lease(request)).toBe(answer);
  // Nothing limits them, as was just answered, so nobody asks.
  expect(await billing.lease(request)).toBe(answers[2]);
  // Whether another was charged is still asked.
  expect(await billing.lease({ ...request, demands: [] })).toBe(answers[3]);
});
