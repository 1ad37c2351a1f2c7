import type { NamedMigration } from '#shared/db/migrate.ts';
import { CreateKeys } from './0001-create-keys.ts';
import { OutlastOutages } from './0002-outlast-outages.ts';

/** In the order in which they run. Released names never change. */
export const migrations: NamedMigration[] = [
  { name: '0001-create-keys', class: CreateKeys },
  { name: '0002-outlast-outages', class: OutlastOutages },
];
