import { create } from '@bufbuild/protobuf';
import type { FastifyRequest } from 'fastify';
import { expect, test } from 'vitest';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { KeySchema } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { silentLogger } from '../../../../test/support/keys.ts';
import { localClient } from '../../../../test/support/local-client.ts';
import { ManualClock } from '../../../../test/support/manual-clock.ts';
import { budgetsOf } from './key-budgets.ts';

test('while Billing is away, what a key has spent is unknown, not nothing', async () => {
  const getSpendToday = () => {
    throw gatewayError(ErrorReason.OVERLOADED, 'Billing is away.');
  };
  const billing = localClient(BillingService, { getSpendToday }, silentLogger);
  const clock = new ManualClock(Date.UTC(2026, 6, 15, 12));
  const capped = create(KeySchema, { id: uuidv7(), constraints: { spendCapNanoUsd: 1n } });
  const keys = [capped, create(KeySchema, { id: uuidv7() })];
  const request = { principal: { tenantId: uuidv7() } } as FastifyRequest;
  expect([...(await budgetsOf({ billing, clock, logger: silentLogger }, keys, request))]).toEqual([
    [capped.id, { spent_today_usd: null, resets_at: '2026-07-16T00:00:00.000Z' }],
  ]);
});
