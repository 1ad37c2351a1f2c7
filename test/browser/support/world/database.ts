import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { inject } from 'vitest';
import { waitFor } from '../../../support/wait-for.ts';
import { withDatabase } from '../../../support/with-database.ts';
import type { World } from './index.ts';

type WorldDatabase = { url: string; world: World; drop(): Promise<void> };

/** Whoever holds this lock makes the world. Any number will do. */
const lockId = 7_203_641;

/**
 * A copy of the run's database with the world in it. The first file that asks has it made, in `<template>_world`; the world's ids are in
 * the database's comment. global-setup.ts drops it.
 */
export async function copyOfWorldDatabase(make: (databaseUrl: string) => Promise<World>): Promise<WorldDatabase> {
  const serverUrl = inject('postgresUrl');
  const template = inject('templateDatabase');
  if (template === undefined) throw new Error(`There is no database to copy: ${inject('templateFailure')}`);
  const source = `${template}_world`;
  const client = new pg.Client({ connectionString: serverUrl });
  await client.connect();
  try {
    await client.query('select pg_advisory_lock($1)', [lockId]);
    let world = await worldOf(client, source);
    if (world === undefined) {
      await client.query(`drop database if exists ${source} with (force)`);
      await client.query(`create database ${source} template ${template} strategy file_copy`);
      world = await make(withDatabase(serverUrl, source));
      await client.query(`comment on database ${source} is ${pg.escapeLiteral(JSON.stringify(world))}`);
    }
    const name = `mgtest_${process.pid}_${randomBytes(6).toString('hex')}`;
    // The connections of the gateway that made it disappear a moment after it closed.
    await waitFor(async () => await client.query(`create database ${name} template ${source} strategy file_copy`), {
      description: 'a copy of the world',
      timeoutMs: 20_000,
      intervalMs: 50,
    });
    return { url: withDatabase(serverUrl, name), world, drop: () => dropDatabase(serverUrl, name) };
  } finally {
    await client.end();
  }
}

async function worldOf(client: pg.Client, database: string): Promise<World | undefined> {
  const { rows } = await client.query<{ world: string | null }>(
    `select shobj_description(oid, 'pg_database') as world from pg_database where datname = $1`,
    [database],
  );
  return rows[0]?.world == null ? undefined : (JSON.parse(rows[0].world) as World);
}

async function dropDatabase(serverUrl: string, name: string): Promise<void> {
  const client = new pg.Client({ connectionString: serverUrl });
  await client.connect();
  try {
    await client.query(`drop database if exists ${name} with (force)`);
  } finally {
    await client.end();
  }
}
