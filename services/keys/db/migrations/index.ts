import type { NamedMigration } from '#shared/db/migrate.ts';
import { CreateKeys } from './0001-create-keys.ts';
import { OutlastOutages } from './0002-outlast-outages.ts';
import { SetRefusedEventsAside } from './0003-set-refused-events-aside.ts';
import { KeepRequestsAsOthersDo } from './0004-keep-requests-as-others-do.ts';
import { CountByTime } from './0005-count-by-time.ts';
import { StartAnewBehindFailovers } from './0006-start-anew-behind-failovers.ts';
import { FindExpiredSecrets } from './0007-find-expired-secrets.ts';
import { KnowPeppers } from './0008-know-peppers.ts';
import { FindEarlierSecrets } from './0009-find-earlier-secrets.ts';
import { NoteRotations } from './0010-note-rotations.ts';

/** In the order in which they run. Released names never change. */
export const migrations: NamedMigration[] = [
  { name: '0001-create-keys', class: CreateKeys },
  { name: '0002-outlast-outages', class: OutlastOutages },
  { name: '0003-set-refused-events-aside', class: SetRefusedEventsAside },
  { name: '0004-keep-requests-as-others-do', class: KeepRequestsAsOthersDo },
  { name: '0005-count-by-time', class: CountByTime },
  { name: '0006-start-anew-behind-failovers', class: StartAnewBehindFailovers },
  { name: '0007-find-expired-secrets', class: FindExpiredSecrets },
  { name: '0008-know-peppers', class: KnowPeppers },
  { name: '0009-find-earlier-secrets', class: FindEarlierSecrets },
  { name: '0010-note-rotations', class: NoteRotations },
];
