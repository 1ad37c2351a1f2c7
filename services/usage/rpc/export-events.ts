import { UsageScope } from '#gen/modelgateway/usage/v1/scope_pb.ts';
import { firstIdAt } from '#shared/ids.ts';
import { Role, sessionCaller } from '#shared/rpc/caller.ts';
import type { ReadTurns } from '#shared/rpc/read-turns.ts';
import { eventMessage } from '../db/event-rows.ts';
import { nextEvents } from '../db/history.ts';
import type { UsageDeps, UsageRpc } from '../deps.ts';
import { daysMaxOfSums, resolveRange } from '../domain/requested-range.ts';
import { subjectOf } from '../domain/subject.ts';
import { instantsOf } from '../domain/time-buckets.ts';
import { keyLabels } from './key-labels.ts';

const eventsPerPage = 500;

type Deps = Pick<UsageDeps, 'database' | 'keys' | 'clock'> & { reads: ReadTurns };

export const exportEvents = ({ database, keys, clock, reads }: Deps): UsageRpc<'exportEvents'> =>
  async function* (request, context) {
    const caller = sessionCaller(context, Role.ADMIN);
    const scope = request.scope === UsageScope.UNSPECIFIED ? UsageScope.TENANT : request.scope;
    const subject = subjectOf(caller, scope);
    const range = instantsOf(resolveRange(request.range, { daysMax: daysMaxOfSums }, clock.now()));
    const endId = firstIdAt(range.endMs);
    // No event has the smallest id of a moment, since its version and variant bits are not those of a UUIDv7.
    let afterId = firstIdAt(range.startMs);
    const keyIds = new Set<string>();
    while (!context.signal.aborted) {
      const page = { subject, filter: request.filter, afterId, endId, limit: eventsPerPage };
      const rows = await reads(context, () => nextEvents(database, page));
      const newKeyIds = new Set(rows.map(({ api_key_id }) => api_key_id ?? '')).difference(keyIds);
      for (const id of newKeyIds) keyIds.add(id);
      const labels = await keyLabels(keys, subject.tenantId, newKeyIds);
      if (rows.length > 0) yield { events: rows.map(eventMessage), keys: Object.fromEntries(labels) };
      if (rows.length < eventsPerPage) return;
      afterId = rows.at(-1)!.id;
    }
  };
