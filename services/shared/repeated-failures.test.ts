import { expect, test, vi } from 'vitest';
import { ErrorReason, gatewayError } from './errors.ts';
import { RepeatedFailures } from './repeated-failures.ts';

test('an outage is logged once for each cause and once a minute, and so is its end; what the next try makes up for is not', () => {
  vi.useFakeTimers();
  try {
    const lines: unknown[] = [];
    const log = (fields: object, text?: string) => lines.push({ ...fields, text });
    const failures = new RepeatedFailures('the feed', { debug() {}, info: log, warn: log });
    const unreachable = (internal: string) => gatewayError(ErrorReason.OVERLOADED, 'Try again.', { internal });
    const fail = (internal: string) => failures.failed(unreachable(internal), 'broke off');
    failures.succeeded();
    fail('once');
    failures.succeeded();
    for (let count = 0; count < 10; count += 1) fail('no route');
    for (const internal of ['refused', 'no route', 'refused']) fail(internal);
    for (let second = 0; second < 60; second += 1) {
      vi.advanceTimersByTime(1_000);
      fail('refused');
    }
    failures.succeeded();
    fail('refused');
    fail('refused');
    expect(lines).toEqual([
      { err: unreachable('no route'), failures: 2, text: 'the feed broke off' },
      { err: unreachable('refused'), failures: 11, text: 'the feed broke off' },
      { err: unreachable('refused'), failures: 73, text: 'the feed broke off' },
      { failures: 73, text: 'the feed works again' },
      { err: unreachable('refused'), failures: 2, text: 'the feed broke off' },
    ]);
  } finally {
    vi.useRealTimers();
  }
});

test('what fails to the end is logged with its cause, even if it failed only once', () => {
  const lines: unknown[] = [];
  const failures = new RepeatedFailures('the feed', {
    debug() {},
    info() {},
    warn: (...line: unknown[]) => lines.push(line),
  });
  failures.ended('is lost');
  failures.failed('refused', 'broke off');
  failures.ended('is lost');
  expect(lines).toEqual([[{ err: 'refused', failures: 1 }, 'the feed is lost']]);
});
