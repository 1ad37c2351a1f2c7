import { UsageScope } from '#gen/modelgateway/usage/v1/scope_pb.ts';
import type { Sql } from '#shared/db/sql.ts';
import { isUuid } from '#shared/ids.ts';
import { callerOf, Role } from '#shared/rpc/caller.ts';
import type { ReadTurns } from '#shared/rpc/read-turns.ts';
import {
  type KeySubject,
  latenciesOfKey,
  latestEventsOfKey,
  onOneSnapshot,
  type VolumeRow,
  volumesOfKey,
} from '../db/key-analytics.ts';
import { type Volume, volumeSums } from '../db/sums.ts';
import type { UsageDeps, UsageRpc } from '../deps.ts';
import { latencySlices } from '../domain/latency-slices.ts';
import { subjectOf } from '../domain/subject.ts';
import { bucketStartsMs, daysIn, instantsOf, rangeBefore } from '../domain/time-buckets.ts';
import { resolveBucketedRange } from './granularity.ts';
import { performanceMessage, pointMessage, recentMessage, volumeMessage } from './key-analytics-messages.ts';
import { keyLabels } from './key-labels.ts';
import { rangeMessage } from './report-messages.ts';

/** The widest range for which the performance block is computed (service.md, Limits). */
const performanceDaysMax = 31;
/** The default range: the last 7 days (decisions.md, Usage). */
const defaultDays = 7;

type Deps = Pick<UsageDeps, 'database' | 'keys' | 'clock'> & { reads: ReadTurns };

export const getKeyAnalytics =
  ({ database, keys, clock, reads }: Deps): UsageRpc<'getKeyAnalytics'> =>
  async (request, context) => {
    const caller = callerOf(context);
    // Owners and admins may read any key of the organization, others only their own.
    const scope = caller.role >= Role.ADMIN ? UsageScope.TENANT : UsageScope.OWN;
    const { keyId, modelName } = request;
    const subject: KeySubject = { ...subjectOf(caller, scope), keyId: keyId || 'none' };
    const { days, width, granularity } = resolveBucketedRange(
      request.granularity,
      request.range,
      { defaultDays },
      clock.now(),
    );
    const range = instantsOf(days);
    const startsMs = bucketStartsMs(days, width);
    const hasPerformance = daysIn(days) <= performanceDaysMax;
    // Looked up while the calls are summed, and awaited without a turn, for which the reads of all organizations wait.
    const label = labelOf(keys, subject);

    const sumUpCalls = async (client: Sql) => {
      const fromMs = instantsOf(rangeBefore(days)).startMs;
      const rows = await volumesOfKey(client, { subject, fromMs, startsMs, endMs: range.endMs });
      const sums = sumUp(rows, startsMs.length, modelName);
      const slices = latencySlices(range, Number(sums.totals.successful_requests));
      return {
        sums,
        latencies: hasPerformance ? await latenciesOfKey(client, { subject, range, slices, model: modelName }) : null,
        recent: await latestEventsOfKey(client, { subject, range }),
      };
    };
    const { sums, latencies, recent } = await reads(context, () => onOneSnapshot(database, sumUpCalls));
    return {
      analytics: {
        keyId,
        granularity,
        range: rangeMessage(range),
        timezone: days.timeZone,
        totals: volumeMessage(sums.totals),
        previousTotals: volumeMessage(sums.previous),
        series: startsMs.map((startMs, index) => pointMessage(startMs, sums.series[index]!)),
        byModel: [...sums.byModel]
          .sort(([nameA, a], [nameB, b]) => Number(b.requests - a.requests) || (nameA < nameB ? -1 : 1))
          .map(([model, volume]) => ({ model, measures: volumeMessage(volume) })),
        performance: hasPerformance ? performanceMessage(sums.totals, latencies) : { available: false },
        recentActivity: recent.map(recentMessage),
        key: await label,
      },
    };
  };

/** What Keys knows of the subject's key, if it is one that the subject has. */
async function labelOf(keys: UsageDeps['keys'], { tenantId, userId, keyId }: KeySubject) {
  if (!isUuid(keyId)) return undefined;
  const id = keyId.toLowerCase();
  const label = (await keyLabels(keys, tenantId, [id])).get(id);
  return userId === null || userId === label?.userId ? label : undefined;
}

/** The model's name narrows the totals and the series, but never the breakdown by model. */
function sumUp(rows: readonly VolumeRow[], bucketCount: number, modelName: string) {
  const totals = volumeSums.none();
  const previous = volumeSums.none();
  const series = Array.from({ length: bucketCount }, volumeSums.none);
  const byModel = new Map<string, Volume>();
  for (const row of rows) {
    if (row.bucket >= 0) {
      const volume = byModel.get(row.model) ?? volumeSums.none();
      byModel.set(row.model, volume);
      volumeSums.add(volume, row);
    }
    if (modelName !== '' && row.model !== modelName) continue;
    if (row.bucket < 0) {
      volumeSums.add(previous, row);
    } else {
      volumeSums.add(totals, row);
      volumeSums.add(series[row.bucket]!, row);
    }
  }
  return { totals, previous, series, byModel };
}
