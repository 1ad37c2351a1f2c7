import { expect, test } from 'vitest';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { attemptsMax, backoffMs, isRetried } from './retry.ts';

test('only transient faults are retried, at growing intervals, and not before the upstream allows it', () => {
  const reasons = [ErrorReason.UPSTREAM_ERROR, ErrorReason.UPSTREAM_TIMEOUT, ErrorReason.OVERLOADED];
  for (const reason of reasons) {
    expect(isRetried(gatewayError(reason, ''), attemptsMax - 1)).toBe(true);
    expect(isRetried(gatewayError(reason, ''), attemptsMax)).toBe(false);
  }
  for (const reason of [ErrorReason.INVALID_REQUEST, ErrorReason.MODEL_SUNSET, ErrorReason.UPSTREAM_REFUSED]) {
    expect(isRetried(gatewayError(reason, ''), 1)).toBe(false);
  }
  expect([1, 2, 3, 9].map((attempt) => backoffMs(attempt, 1))).toEqual([1_000, 2_000, 4_000, 60_000]);
  expect(backoffMs(3, 0)).toBe(2_000);
  expect(backoffMs(1, 0, 30_000)).toBe(30_000);
  expect(backoffMs(1, 0, 3_600_000)).toBe(60_000);
});
