import type { NamedMigration } from '#shared/db/migrate.ts';
import { CreateJobs } from './0001-create-jobs.ts';

/** In the order in which they run: `{ name: '0001-create-things', class: CreateThings }`. Released names never change. */
export const migrations: NamedMigration[] = [{ name: '0001-create-jobs', class: CreateJobs }];
