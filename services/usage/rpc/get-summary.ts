import { callerOf } from '#shared/rpc/caller.ts';
import { groupedSums } from '../db/grouped-sums.ts';
import { measuresMessage } from '../db/sums.ts';
import type { UsageDeps, UsageRpc } from '../deps.ts';
import { daysMaxOfSums, resolveRange } from '../domain/requested-range.ts';
import { subjectOf } from '../domain/subject.ts';
import { instantsOf } from '../domain/time-buckets.ts';
import { keyLabels } from './key-labels.ts';
import { dearestFirst, rangeMessage } from './report-messages.ts';

export const getSummary =
  ({ database, keys, clock }: Pick<UsageDeps, 'database' | 'keys' | 'clock'>): UsageRpc<'getSummary'> =>
  async (request, context) => {
    const subject = subjectOf(callerOf(context), request.scope);
    const range = instantsOf(resolveRange(request.range, { daysMax: daysMaxOfSums }, clock.now()));
    const sums = await groupedSums(database, {
      subject,
      range,
      filter: request.filter,
      dimensions: ['model', 'endpoint', 'api_key_id'],
    });
    const keyIds = sums.api_key_id.map(({ name }) => name);
    return {
      range: rangeMessage(range),
      totals: measuresMessage(sums.totals),
      byModel: dearestFirst(sums.model),
      byEndpoint: dearestFirst(sums.endpoint),
      byApiKey: dearestFirst(sums.api_key_id, await keyLabels(keys, subject.tenantId, keyIds)),
    };
  };
