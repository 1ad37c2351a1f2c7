import { expect, test } from 'vitest';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { transaction } from '#shared/db/transaction.ts';
import { asTableOwner, lockWaiters } from '../../../test/support/people.ts';
import { createTestDatabase } from '../../../test/support/postgres.ts';
import { silentLogger as logger } from '../../../test/support/silent-logger.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { entities } from './entities.ts';
import { claimDueMails, withdrawMails } from './mail.repository.ts';

const now = new Date('2030-01-01T00:00:00Z');

/** Mails of a kind in the outbox, due one second after another from a moment on. */
const queue = (database: { url: string }, kind: string, count: number, dueFrom: string) =>
  asTableOwner(
    { database },
    `insert into mails (id, dedupe_key, message_id, kind, to_email, subject, status, created_at, next_attempt_at)
     select gen_random_uuid(), $1 || ' ' || $3 || ' ' || nth, nth, $1, 'reader@example.com', 'A subject', 1, $3::timestamptz,
       $3::timestamptz + nth * interval '1 second'
     from generate_series(1, $2) as nth`,
    [kind, count, dueFrom],
  );

test('claiming reads only the mails that it takes, those that people wait for first, however many others wait', async () => {
  await using database = await createTestDatabase();
  const service = await openServiceDatabase({ service: 'auth', connection: database.url, entities, logger });
  await using _closed = { [Symbol.asyncDispose]: () => service.close() };
  const claim = () =>
    transaction(service, async (em) => {
      const mails = await claimDueMails(em, { now, leaseMs: 60_000, limit: 2 });
      const [read] = await em.execute<{ rows: number }[]>(
        `select (seq_tup_read + idx_tup_fetch)::int as rows from pg_stat_xact_user_tables where relname = 'mails'`,
      );
      return { kinds: mails.map(({ mail }) => mail.kind).toSorted(), rowsRead: read!.rows };
    });

  await queue(database, 'password_reset', 3, '2031-01-01T00:00:00Z');
  await queue(database, 'model_retirement', 10_000, '2031-01-01T00:00:00Z');
  await asTableOwner({ database }, 'analyze mails');
  const none = await claim();
  await queue(database, 'model_retirement', 10_000, '2029-12-01T00:00:00Z');
  await queue(database, 'password_reset', 2, '2029-12-31T00:00:00Z');
  await queue(database, 'email_change', 1, '2029-12-31T00:01:00Z');
  await asTableOwner({ database }, 'analyze mails');
  const claims = [await claim(), await claim(), await claim()];
  expect([none, ...claims].map(({ kinds }) => kinds)).toEqual([
    [],
    ['password_reset', 'password_reset'],
    ['email_change', 'model_retirement'],
    ['model_retirement', 'model_retirement'],
  ]);
  for (const { rowsRead } of [none, ...claims]) expect(rowsRead).toBeLessThan(100);
});

test('a mail that was sent again is not mistaken for one whose withdrawal was recorded: it is withdrawn and reported itself', async () => {
  await using database = await createTestDatabase();
  const service = await openServiceDatabase({ service: 'auth', connection: database.url, entities, logger });
  await using _closed = { [Symbol.asyncDispose]: () => service.close() };
  const send = () => queue(database, 'model_retirement', 1, '2030-01-01T00:00:00Z');
  const withdraw = (noted: string[]) =>
    transaction(service, (em) => withdrawMails(em, { prefix: 'model_retirement ', noted, now, limit: 10 }));
  await send();
  const withdrawn = await withdraw([]);
  expect(withdrawn).toHaveLength(1);
  expect(await withdraw(withdrawn)).toEqual([]);
  await send();
  expect(await withdraw(withdrawn)).toEqual(withdrawn);
});

test('a mail that is being claimed while it is withdrawn stays in the hands of its sender, and is not tried again', async () => {
  await using database = await createTestDatabase();
  const service = await openServiceDatabase({ service: 'auth', connection: database.url, entities, logger });
  await using _closed = { [Symbol.asyncDispose]: () => service.close() };
  await queue(database, 'model_retirement', 1, '2029-12-31T23:59:59Z');
  const [claimed, tried] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const claiming = transaction(service, async (em) => {
    await claimDueMails(em, { now, leaseMs: 60_000, limit: 1 });
    claimed.resolve();
    await tried.promise;
  });
  await claimed.promise;
  const withdrawing = transaction(service, (em) =>
    withdrawMails(em, { prefix: 'model_retirement ', noted: [], now, limit: 10 }),
  );
  const isWaiting = async () => (await lockWaiters({ database })) > 0;
  await Promise.race([withdrawing, waitFor(isWaiting, { description: 'the withdrawal to wait for the claim' })]);
  tried.resolve();
  await claiming;
  expect(await withdrawing).toEqual([]);
  const { rows } = await asTableOwner({ database }, 'select attempts, expires_at from mails');
  expect(rows).toEqual([{ attempts: 1, expires_at: now }]);
});
