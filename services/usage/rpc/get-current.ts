import { callerOf } from '#shared/rpc/caller.ts';
import { groupedSums } from '../db/grouped-sums.ts';
import { measuresMessage } from '../db/sums.ts';
import type { UsageDeps, UsageRpc } from '../deps.ts';
import { subjectOf } from '../domain/subject.ts';
import { utcMonthAt } from '../domain/time-buckets.ts';
import { dearestFirst, rangeMessage } from './report-messages.ts';

export const getCurrent =
  ({ database, clock }: Pick<UsageDeps, 'database' | 'clock'>): UsageRpc<'getCurrent'> =>
  async ({ scope }, context) => {
    const subject = subjectOf(callerOf(context), scope);
    const range = utcMonthAt(clock.now());
    const { totals, model } = await groupedSums(database, { subject, range, dimensions: ['model'] });
    return { period: rangeMessage(range), measures: measuresMessage(totals), models: dearestFirst(model) };
  };
