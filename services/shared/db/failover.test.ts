import { expect, test } from 'vitest';
import { rowsOf } from '../../../test/support/postgres.ts';
import { startPostgresPair } from '../../../test/support/postgres-pair.ts';
import { silentLogger as logger } from '../../../test/support/silent-logger.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { failoverNotice } from './failover.ts';
import { openServiceDatabase } from './orm.ts';

test('a failover is noticed even by who met the new server while it was still a standby', async () => {
  await using pair = await startPostgresPair();
  await rowsOf(
    pair.url,
    `create role modelgateway_app nologin;
      create schema noted;
      create table noted.feed (version bigint not null, timeline text);
      insert into noted.feed values (1, null);
      grant usage on schema noted to modelgateway_app;
      grant select, update on noted.feed to modelgateway_app`,
  );
  const database = await openServiceDatabase({ service: 'noted', connection: pair.url, entities: [], logger });
  const notice = failoverNotice({ database, table: 'feed', columns: ['version'], channel: 'noted', logger });
  const version = async () => (await database.pool.query('select version from feed')).rows[0].version;
  await notice();
  expect(await version()).toBe(1n);

  let hasMetStandby = false;
  let isOver = false;
  const asking = (async () => {
    while (!isOver) {
      await notice()
        .then(() => database.pool.query('select pg_is_in_recovery() as is_standby'))
        .then(({ rows }) => {
          hasMetStandby ||= rows[0].is_standby;
        })
        .catch(() => {});
    }
  })();
  await pair.failOver(() => hasMetStandby);
  const isRaised = async () => (await version().catch(() => 1n)) > 1n;
  await waitFor(isRaised, { description: 'the version to be raised' }).finally(() => {
    isOver = true;
  });
  await asking;
  await database.close();
});
