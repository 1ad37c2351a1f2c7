import type { NamedMigration } from '#shared/db/migrate.ts';

/** In the order in which they run: `{ name: '0001-create-things', class: CreateThings }`. Released names never change. */
export const migrations: NamedMigration[] = [];
