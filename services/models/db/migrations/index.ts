import type { NamedMigration } from '#shared/db/migrate.ts';
import { CreateCatalog } from './001-create-catalog.ts';

export const migrations: readonly NamedMigration[] = [{ name: '001-create-catalog', class: CreateCatalog }];
