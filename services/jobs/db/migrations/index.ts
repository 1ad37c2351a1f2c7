import type { NamedMigration } from '#shared/db/migrate.ts';
import { CreateJobs } from './0001-create-jobs.ts';
import { KeepSmallBodiesInRows } from './0002-keep-small-bodies-in-rows.ts';
import { CountKeptResults } from './0003-count-kept-results.ts';
import { RememberKeysOfDeletedJobs } from './0004-remember-keys-of-deleted-jobs.ts';
import { CountJobsByIndex } from './0005-count-jobs-by-index.ts';
import { KnowSubmissionsUnderWay } from './0006-know-submissions-under-way.ts';
import { KnowLostJobs } from './0007-know-lost-jobs.ts';

/** In the order in which they run. Released names never change. */
export const migrations: NamedMigration[] = [
  { name: '0001-create-jobs', class: CreateJobs },
  { name: '0002-keep-small-bodies-in-rows', class: KeepSmallBodiesInRows },
  { name: '0003-count-kept-results', class: CountKeptResults },
  { name: '0004-remember-keys-of-deleted-jobs', class: RememberKeysOfDeletedJobs },
  { name: '0005-count-jobs-by-index', class: CountJobsByIndex },
  { name: '0006-know-submissions-under-way', class: KnowSubmissionsUnderWay },
  { name: '0007-know-lost-jobs', class: KnowLostJobs },
];
