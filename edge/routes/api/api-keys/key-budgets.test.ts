import { create } from '@bufbuild/protobuf';
import type { FastifyRequest } from 'fastify';
import { expect, test } from 'vitest';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { KeySchema } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { localClient } from '../../../../test/support/local-client.ts';
import { ManualClock } from '../../../../test/support/manual-clock.ts';
import { logCollector } from '../../../../test/support/rpc-carriers.ts';
import { silentLogger } from '../../../../test/support/silent-logger.ts';
import { startStopwatch } from '../../../../test/support/stopwatch.ts';
import { budgetsOf } from './key-budgets.ts';

const clock = new ManualClock(Date.UTC(2026, 6, 15, 12));
const capped = create(KeySchema, { id: uuidv7(), constraints: { spendCapNanoUsd: 1n } });
const request = { principal: { tenantId: uuidv7() } } as FastifyRequest;
const unknown = [[capped.id, { spent_today_usd: null, resets_at: '2026-07-16T00:00:00.000Z' }]];

test('while Billing is away, what a key has spent is unknown, not nothing', async () => {
  const getSpendToday = () => {
    throw gatewayError(ErrorReason.OVERLOADED, 'Billing is away.');
  };
  const billing = localClient(BillingService, { getSpendToday }, silentLogger);
  const keys = [capped, create(KeySchema, { id: uuidv7() })];
  const { lines, logger } = logCollector('info');
  expect([...(await budgetsOf({ billing, clock, logger }, keys, request))]).toEqual(unknown);
  // Nothing limits how often keys are listed.
  expect(lines).toEqual([]);
});

test('while Billing says nothing, keys, and the secret of a new one, are kept from their owner for a second or two at most', async () => {
  const getSpendToday = () => new Promise<never>(() => {});
  const billing = localClient(BillingService, { getSpendToday }, silentLogger);
  using watch = startStopwatch();
  expect([...(await budgetsOf({ billing, clock, logger: silentLogger }, [capped], request))]).toEqual(unknown);
  expect(watch.ms).toBeLessThan(2_000);
}, 15_000);
