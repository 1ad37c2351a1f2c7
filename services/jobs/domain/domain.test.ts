import { describe, expect, test } from 'vitest';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { isUuid, uuidv7, uuidv7Ms } from '#shared/ids.ts';
import { chooseLanes } from './choose-lanes.ts';
import { parseJobId, publicJobId, successEventId } from './job-id.ts';
import { requestHash } from './request-hash.ts';
import { backoffMs, isTransient } from './retry.ts';

describe('choosing lanes', () => {
  const lane = (tenantId: string, subjectId = tenantId, model = 'm') => ({ tenantId, subjectId, model });
  const wide = { perSubject: 100, perModel: 100 };

  test('gives each organization a slot in turn, the one that waits the longest first', () => {
    const { lanes, served } = chooseLanes([lane('a'), lane('b'), lane('c')], [], 5, wide);
    expect(lanes.map(({ tenantId, slots }) => [tenantId, slots])).toEqual([
      ['a', 2],
      ['b', 2],
      ['c', 1],
    ]);
    // Next time: c, a, b.
    expect(served).toEqual(['c', 'a', 'b']);
  });

  test('shares an organization’s turns among its callers and models', () => {
    const { lanes } = chooseLanes([lane('a', 'k1'), lane('a', 'k2'), lane('b')], [], 4, wide);
    expect(Object.fromEntries(lanes.map(({ subjectId, slots }) => [subjectId, slots]))).toEqual({ k1: 1, k2: 1, b: 2 });
  });

  test('leaves out whoever is at a bound, and says so', () => {
    const running = [{ subjectId: 'k1', model: 'm', count: 2 }];
    const bounded = chooseLanes([lane('a', 'k1'), lane('b')], running, 9, { perSubject: 2, perModel: 5 });
    expect(bounded.lanes.map(({ subjectId, slots }) => [subjectId, slots])).toEqual([['b', 2]]);
    expect(bounded.isBounded).toBe(true);
    const model = chooseLanes([lane('a'), lane('b', 'b', 'n')], [], 9, { perSubject: 9, perModel: 1 });
    expect(model.lanes.map(({ slots }) => slots)).toEqual([1, 1]);
  });

  test('of nothing is nothing', () => {
    expect(chooseLanes([], [], 9, wide)).toEqual({ lanes: [], served: [], isBounded: false });
    expect(chooseLanes([lane('a')], [], 0, wide).lanes).toEqual([]);
  });
});

describe('ids', () => {
  test('go there and back; anything else is no id', () => {
    const id = uuidv7();
    expect(parseJobId(publicJobId(id))).toBe(id);
    for (const text of ['', 'job_', id, publicJobId(id).toUpperCase(), `${publicJobId(id)}0`, `${publicJobId(id)}\n`]) {
      expect(parseJobId(text), text).toBeNull();
    }
  });

  test('the event of a job is always the same, and tells when the job began', () => {
    const id = uuidv7();
    const event = successEventId(id, 1_780_000_000_123);
    expect(isUuid(event)).toBe(true);
    expect(event[14]).toBe('7');
    expect(uuidv7Ms(event)).toBe(1_780_000_000_123);
    expect(successEventId(id, 1_780_000_000_123)).toBe(event);
    expect(successEventId(uuidv7(), 1_780_000_000_123)).not.toBe(event);
  });
});

describe('the hash of a request', () => {
  const of = (contentType: string, body: string, endpoint = '/v1/x') =>
    requestHash({ endpoint, contentType, body: Buffer.from(body) }).toString('hex');

  test('tells bodies and endpoints apart', () => {
    expect(of('application/json', '{}')).toBe(of('application/json', '{}'));
    expect(of('application/json', '{}')).not.toBe(of('application/json', '{ }'));
    expect(of('application/json', '{}')).not.toBe(of('application/json', '{}', '/v1/y'));
  });

  test('does not see the boundary of a form, but all else', () => {
    const form = (boundary: string, text: string) =>
      of(`multipart/form-data; boundary=${boundary}`, `--${boundary}\r\n\r\n${text}\r\n--${boundary}--\r\n`);
    expect(form('one', 'a')).toBe(form('quite-another', 'a'));
    expect(form('one', 'a')).not.toBe(form('one', 'b'));
  });
});

test('only faults that pass by themselves are tried again, later each time, and not before the upstream says', () => {
  const reasons = [ErrorReason.UPSTREAM_ERROR, ErrorReason.UPSTREAM_TIMEOUT, ErrorReason.OVERLOADED];
  for (const reason of reasons) expect(isTransient(gatewayError(reason, ''))).toBe(true);
  for (const reason of [ErrorReason.INVALID_REQUEST, ErrorReason.MODEL_SUNSET, ErrorReason.UPSTREAM_REFUSED]) {
    expect(isTransient(gatewayError(reason, ''))).toBe(false);
  }
  expect([1, 2, 3, 9].map((attempt) => backoffMs(attempt, 1))).toEqual([1_000, 2_000, 4_000, 60_000]);
  expect(backoffMs(3, 0)).toBe(2_000);
  expect(backoffMs(1, 0, 30_000)).toBe(30_000);
  expect(backoffMs(1, 0, 3_600_000)).toBe(60_000);
});
