import { GroupBy } from '#gen/modelgateway/usage/v1/report_pb.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import type { ReadTurns } from '#shared/rpc/read-turns.ts';
import { type BucketSums, bucketedSums } from '../db/bucketed-sums.ts';
import type { Dimension } from '../db/grouped-sums.ts';
import { measureSums, measuresMessage } from '../db/sums.ts';
import type { UsageDeps, UsageRpc } from '../deps.ts';
import { subjectOf } from '../domain/subject.ts';
import { bucketStartsMs, instantsOf } from '../domain/time-buckets.ts';
import { resolveBucketedRange } from './granularity.ts';
import { type KeyLabels, keyLabels } from './key-labels.ts';
import { namedMeasures, rangeMessage } from './report-messages.ts';

/** The generated type also allows unknown numbers, which validation refuses. */
type KnownGroupBy = (typeof GroupBy)[keyof typeof GroupBy];

const dimensions: Readonly<Record<KnownGroupBy, Dimension | undefined>> = {
  [GroupBy.UNSPECIFIED]: undefined,
  [GroupBy.NONE]: undefined,
  [GroupBy.MODEL]: 'model',
  [GroupBy.API_KEY]: 'api_key_id',
  [GroupBy.ENDPOINT]: 'endpoint',
};

type Deps = Pick<UsageDeps, 'database' | 'keys' | 'clock'> & { reads: ReadTurns };

export const getReport =
  ({ database, keys, clock, reads }: Deps): UsageRpc<'getReport'> =>
  async (request, context) => {
    const subject = subjectOf(callerOf(context), request.scope);
    const { days, width, granularity } = resolveBucketedRange(request.granularity, request.range, {}, clock.now());
    const range = instantsOf(days);
    const startsMs = bucketStartsMs(days, width);
    const dimension = dimensions[request.groupBy as KnownGroupBy];
    const { filter } = request;
    const rows = await reads(context, () =>
      bucketedSums(database, { subject, filter, dimension, startsMs, endMs: range.endMs }),
    );
    // A silent Keys must not keep the turns for which the reads of all organizations wait.
    const keyIds = dimension === 'api_key_id' ? rows.map(({ name }) => name) : undefined;
    const labels = keyIds && (await keyLabels(keys, subject.tenantId, keyIds));

    const totals = measureSums.none();
    for (const row of rows) measureSums.add(totals, row);
    const rowsByBucket = Map.groupBy(rows, ({ bucket }) => bucket);
    return {
      range: rangeMessage(range),
      granularity,
      timezone: days.timeZone,
      totals: measuresMessage(totals),
      buckets: startsMs.map((startMs, index) => ({
        range: rangeMessage({ startMs, endMs: startsMs[index + 1] ?? range.endMs }),
        ...bucketMessage(rowsByBucket.get(index) ?? [], dimension !== undefined, labels),
      })),
    };
  };

function bucketMessage(rows: BucketSums[], isSplit: boolean, labels?: KeyLabels) {
  const sums = measureSums.none();
  for (const row of rows) measureSums.add(sums, row);
  const groups = isSplit ? rows.sort((a, b) => (a.name < b.name ? -1 : 1)) : [];
  return {
    measures: measuresMessage(sums),
    groups: groups.map((row) => namedMeasures(row, labels)),
  };
}
