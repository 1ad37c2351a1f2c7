import type { NamedMigration } from '#shared/db/migrate.ts';
import { CreateKeys } from './0001-create-keys.ts';
import { OutlastOutages } from './0002-outlast-outages.ts';
import { SetRefusedEventsAside } from './0003-set-refused-events-aside.ts';

/** In the order in which they run. Released names never change. */
export const migrations: NamedMigration[] = [
  { name: '0001-create-keys', class: CreateKeys },
  { name: '0002-outlast-outages', class: OutlastOutages },
  { name: '0003-set-refused-events-aside', class: SetRefusedEventsAside },
];
