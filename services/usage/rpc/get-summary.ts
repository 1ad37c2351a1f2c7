import { callerOf } from '#shared/rpc/caller.ts';
import type { ReadTurns } from '#shared/rpc/read-turns.ts';
import { groupedSums } from '../db/grouped-sums.ts';
import { measuresMessage } from '../db/sums.ts';
import type { UsageDeps, UsageRpc } from '../deps.ts';
import { daysMaxOfSums, resolveRange } from '../domain/requested-range.ts';
import { subjectOf } from '../domain/subject.ts';
import { instantsOf } from '../domain/time-buckets.ts';
import { keyLabels } from './key-labels.ts';
import { dearestFirst, rangeMessage } from './report-messages.ts';

type Deps = Pick<UsageDeps, 'database' | 'keys' | 'clock'> & { reads: ReadTurns };

export const getSummary =
  ({ database, keys, clock, reads }: Deps): UsageRpc<'getSummary'> =>
  async (request, context) => {
    const subject = subjectOf(callerOf(context), request.scope);
    const range = instantsOf(resolveRange(request.range, { daysMax: daysMaxOfSums }, clock.now()));
    const dimensions = ['model', 'endpoint', 'api_key_id'] as const;
    const sums = await reads(context, () =>
      groupedSums(database, { subject, range, filter: request.filter, dimensions }),
    );
    // A silent Keys must not keep the turns for which the reads of all organizations wait.
    const keyIds = sums.api_key_id.map(({ name }) => name);
    return {
      range: rangeMessage(range),
      totals: measuresMessage(sums.totals),
      byModel: dearestFirst(sums.model),
      byEndpoint: dearestFirst(sums.endpoint),
      byApiKey: dearestFirst(sums.api_key_id, await keyLabels(keys, subject.tenantId, keyIds)),
    };
  };
