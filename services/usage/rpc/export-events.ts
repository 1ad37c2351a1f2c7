import { UsageScope } from '#gen/modelgateway/usage/v1/scope_pb.ts';
import { pagesById } from '#shared/db/pages-by-id.ts';
import { Role, sessionCaller } from '#shared/rpc/caller.ts';
import type { ReadTurns } from '#shared/rpc/read-turns.ts';
import { bucketedSums } from '../db/bucketed-sums.ts';
import { eventMessage } from '../db/event-rows.ts';
import { nextEvents, rangesToRead } from '../db/history.ts';
import type { UsageDeps, UsageRpc } from '../deps.ts';
import { daysMaxOfSums, resolveRange } from '../domain/requested-range.ts';
import { subjectOf } from '../domain/subject.ts';
import { bucketStartsMs, dayAt, instantsOf } from '../domain/time-buckets.ts';
import { keyLabels } from './key-labels.ts';

/** A page is made in one turn of the event loop, for which everybody waits. */
const eventsPerPage = 100;

type Deps = Pick<UsageDeps, 'database' | 'keys' | 'clock'> & { reads: ReadTurns };

export const exportEvents = ({ database, keys, clock, reads }: Deps): UsageRpc<'exportEvents'> =>
  async function* (request, context) {
    const caller = sessionCaller(context, Role.ADMIN);
    const scope = request.scope === UsageScope.UNSPECIFIED ? UsageScope.TENANT : request.scope;
    const subject = subjectOf(caller, scope);
    const { filter } = request;
    const { startMs, endMs } = instantsOf(resolveRange(request.range, { daysMax: daysMaxOfSums }, clock.now()));
    // Days of UTC whatever the zone: those of another are summed from quarter hours, of which a year has many.
    const days = { firstDay: dayAt(startMs, 'UTC'), lastDay: dayAt(endMs - 1, 'UTC'), timeZone: 'UTC' };
    const startsMs = bucketStartsMs(days, 'daily').map((dayMs) => Math.max(dayMs, startMs));
    // To look for a rare model among all events of a large organization would take longer than a statement may.
    const busyDays = await reads(context, () => bucketedSums(database, { subject, filter, startsMs, endMs }), 'first');
    /** The ids of keys whose names the reader has. */
    const named = new Set<string>();
    for (const { bucket } of busyDays.sort((a, b) => a.bucket - b.bucket)) {
      if (context.signal.aborted) return;
      const range = { startMs: startsMs[bucket]!, endMs: startsMs[bucket + 1] ?? endMs };
      const asked = { subject, filter, range, eventsMax: eventsPerPage };
      for (const ranges of await reads(context, () => rangesToRead(database, asked), 'next')) {
        const time = { startMs: ranges[0]!.startMs, endMs: ranges.at(-1)!.endMs, limit: eventsPerPage };
        const pages = pagesById(time, async (page) => {
          if (context.signal.aborted) return [];
          return reads(context, () => nextEvents(database, { subject, filter, ranges, ...page }), 'next');
        });
        for await (const rows of pages) {
          const keyIds = new Set(rows.map(({ api_key_id }) => api_key_id ?? ''));
          const labels = await keyLabels(keys, subject.tenantId, keyIds.difference(named));
          for (const id of labels.keys()) named.add(id);
          yield { events: rows.map(eventMessage), keys: Object.fromEntries(labels) };
        }
      }
    }
  };
