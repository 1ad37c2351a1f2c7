import type { NamedMigration } from '#shared/db/migrate.ts';
import { CreateUsage } from './0001-create-usage.ts';
import { CreateRateLimitShares } from './0002-create-rate-limit-shares.ts';
import { AddDailyRollups } from './0003-add-daily-rollups.ts';
import { GatherDays } from './0004-gather-days.ts';
import { CoverLatencies } from './0005-cover-latencies.ts';
import { ShareRateLimitBuckets } from './0006-share-rate-limit-buckets.ts';
import { SumDaysLater } from './0007-sum-days-later.ts';
import { AddWeeklyRollups } from './0008-add-weekly-rollups.ts';
import { DropMonthsByName } from './0009-drop-months-by-name.ts';
import { FindFailedEvents } from './0010-find-failed-events.ts';
import { NoteFilledLimits } from './0011-note-filled-limits.ts';
import { FindRequests } from './0012-find-requests.ts';
import { LockBeforeDropping } from './0013-lock-before-dropping.ts';
import { VacuumEventsEarly } from './0014-vacuum-events-early.ts';

/** In the order in which they run. Released names never change. */
export const migrations: readonly NamedMigration[] = [
  { name: '0001-create-usage', class: CreateUsage },
  { name: '0002-create-rate-limit-shares', class: CreateRateLimitShares },
  { name: '0003-add-daily-rollups', class: AddDailyRollups },
  { name: '0004-gather-days', class: GatherDays },
  { name: '0005-cover-latencies', class: CoverLatencies },
  { name: '0006-share-rate-limit-buckets', class: ShareRateLimitBuckets },
  { name: '0007-sum-days-later', class: SumDaysLater },
  { name: '0008-add-weekly-rollups', class: AddWeeklyRollups },
  { name: '0009-drop-months-by-name', class: DropMonthsByName },
  { name: '0010-find-failed-events', class: FindFailedEvents },
  { name: '0011-note-filled-limits', class: NoteFilledLimits },
  { name: '0012-find-requests', class: FindRequests },
  { name: '0013-lock-before-dropping', class: LockBeforeDropping },
  { name: '0014-vacuum-events-early', class: VacuumEventsEarly },
];
