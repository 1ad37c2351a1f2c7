import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DescribeKeysResponseSchema } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import type { ExportEventsResponse } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { keyId, testEvent } from '../../../../services/usage/fixtures/test-events.ts';
import { asService, testNowMs } from '../../../../services/usage/fixtures/test-usage.ts';
import { startUsageEdge, type UsageEdge } from '../../../fixtures/usage-edge.ts';

const path = '/usage/export?start_date=2026-07-01&end_date=2026-07-31';
const eventCount = 2_100;

let edge: UsageEdge;
/** What is put between the route and Usage, per test. */
let between: (
  pages: AsyncIterable<ExportEventsResponse>,
  signal: AbortSignal | undefined,
) => AsyncIterable<ExportEventsResponse>;
const ids: string[] = [];
const keysAsked: string[] = [];
beforeAll(async () => {
  edge = await startUsageEdge({
    exportEvents: (real) => (request, options) => between(real(request, options), options?.signal),
    describeKeys: async ({ keyIds }) => {
      keysAsked.push(...keyIds!);
      return create(DescribeKeysResponseSchema, { keys: [{ keyId, name: 'A key' }] });
    },
  });
  for (let first = 0; first < eventCount; first += 1_000) {
    const events = Array.from({ length: Math.min(1_000, eventCount - first) }, (_, index) =>
      testEvent(testNowMs - 86_400_000 + (first + index) * 10),
    );
    await edge.usage.client.record({ events }, asService());
    ids.push(...events.map(({ id }) => id));
  }
});
afterAll(() => edge[Symbol.asyncDispose]());

test('rows of the export arrive before the last of them has been read, and all arrive once, oldest first', async () => {
  const release = Promise.withResolvers<void>();
  let pagesRead = 0;
  between = async function* (pages) {
    for await (const page of pages) {
      // The database has no more to give until the client has seen the first rows.
      if (pagesRead === 2) await release.promise;
      pagesRead += 1;
      yield page;
    }
  };
  let text = '';
  for await (const bytes of await edge.stream(path, 'owner')) {
    text += bytes.toString();
    if (text.includes(ids[0]!)) release.resolve();
  }
  expect(pagesRead).toBe(Math.ceil(eventCount / 100));
  const lines = text.split('\r\n');
  expect(lines.slice(1, -1).map((line) => line.split(',')[0])).toEqual(ids);
  // Keys is asked for its name once.
  expect(lines.slice(1, -1).map((line) => line.split(',').at(-1))).toEqual(ids.map(() => 'A key'));
  expect(keysAsked).toEqual([keyId]);
});

test('the export of 10,000 events holds a few pages of them at a time, at its reader’s pace', async () => {
  const pageCount = 100;
  let pagesRead = 0;
  between = async function* (pages) {
    for await (const page of pages) {
      for (; pagesRead < pageCount; pagesRead += 1) yield page;
      return;
    }
  };
  let rowsArrived = 0;
  let rowsHeldMost = 0;
  for await (const bytes of await edge.stream(path, 'owner')) {
    for (const byte of bytes) if (byte === 0x0a) rowsArrived += 1;
    rowsHeldMost = Math.max(rowsHeldMost, pagesRead * 100 - rowsArrived);
  }
  expect(rowsArrived).toBe(1 + pageCount * 100);
  // The 16 pages that a stream holds at most, plus what is on its way through the response.
  expect(rowsHeldMost).toBeLessThan(20 * 100);
});

test.each([0, 1])('an export whose client leaves after %i pages is read no further', async (pagesBefore) => {
  const leaving = new AbortController();
  const ended = Promise.withResolvers<void>();
  let pagesRead = 0;
  between = async function* (pages) {
    try {
      for await (const page of pages) {
        if (pagesRead === pagesBefore) {
          leaving.abort();
          await left;
        }
        pagesRead += 1;
        yield page;
      }
    } finally {
      ended.resolve();
    }
  };
  const left = edge.getUntil(path, 'owner', leaving.signal);
  await ended.promise;
  expect(pagesRead).toBe(pagesBefore + 1);
});

test('one whose client leaves while it waits for its turn gives that up', async () => {
  const leaving = new AbortController();
  const given = Promise.withResolvers<AbortSignal | undefined>();
  between = async function* (pages, signal) {
    given.resolve(signal);
    leaving.abort();
    await left;
    yield* pages;
  };
  const left = edge.getUntil(path, 'owner', leaving.signal);
  await left;
  expect((await given.promise)?.aborted).toBe(true);
});
