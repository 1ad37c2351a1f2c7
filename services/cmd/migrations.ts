import type { ServiceMigrations } from '#shared/db/migrate.ts';
import { migrations as auth } from '../auth/db/migrations/index.ts';
import { migrations as billing } from '../billing/db/migrations/index.ts';
import { migrations as jobs } from '../jobs/db/migrations/index.ts';
import { migrations as keys } from '../keys/db/migrations/index.ts';
import { migrations as models } from '../models/db/migrations/index.ts';
import { migrations as usage } from '../usage/db/migrations/index.ts';

/** Every service's migrations. Schemas do not depend on each other, so the order does not matter. */
export const serviceMigrations: readonly ServiceMigrations[] = [
  { service: 'keys', migrations: keys },
  { service: 'auth', migrations: auth },
  { service: 'usage', migrations: usage },
  { service: 'billing', migrations: billing },
  { service: 'models', migrations: models },
  { service: 'jobs', migrations: jobs },
];
