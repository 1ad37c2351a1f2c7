import { expect, test } from 'vitest';
import { InvitationStatus } from '#gen/modelgateway/auth/v1/invitation_pb.ts';
import { MailStatus } from '#gen/modelgateway/auth/v1/mail_pb.ts';
import { openServiceDatabase, type ServiceDatabase } from '#shared/db/orm.ts';
import { startTestAuth, type TestAuth } from '../../../test/support/auth.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { asTableOwner, operatorOf, ownerOf } from '../../../test/support/people.ts';
import { silentLogger as logger } from '../../../test/support/silent-logger.ts';
import { removeOutdated } from './housekeeping.ts';

const dayMs = 86_400_000;

async function start() {
  const clock = new ManualClock(Date.now());
  const fixture = await startTestAuth({ clock });
  const database = await openServiceDatabase({
    service: 'auth',
    connection: fixture.database.url,
    entities: [],
    logger,
  });
  const close = async (): Promise<void> => {
    await database.close();
    await fixture.close();
  };
  return { clock, fixture, database, [Symbol.asyncDispose]: close };
}

/** This many rows, of the age given in days, with ids of their time, as all ids are. */
const made = (count: number, days: string) => `from (
  select uuidv7(-age) as id, now() - age as at
  from (select interval '1 day' * (${days}) as age from generate_series(1, ${count}) as nth) as ages) as made`;
const mails = (fixture: TestAuth, status: MailStatus, count: number, days: string) =>
  asTableOwner(
    fixture,
    `insert into mails (id, dedupe_key, message_id, kind, to_email, subject, status, created_at)
     select id, id, id, 'invitation', 'reader@example.com', 'A subject', $1, at ${made(count, days)}`,
    [status],
  );
const invitations = (fixture: TestAuth, count: number, days: string) =>
  asTableOwner(
    fixture,
    `insert into invitations (id, tenant_id, email, role, token_hash, invited_by_user_id, created_at, expires_at, withdrawn_at)
     select id, $1, 'reader@example.com', 1, decode(md5(id::text), 'hex'), $2, at, at + interval '7 days', at
     ${made(count, days)}`,
    [fixture.owner.tenantId, fixture.owner.userId],
  );
const rowsIn = async (fixture: TestAuth, table: string): Promise<number> =>
  (await asTableOwner(fixture, `select from ${table}`)).rowCount!;

test('an invitation is listed for ninety days after its end, however it ended, and its mail for as long; then both are removed', async () => {
  await using running = await start();
  const { clock, fixture, database } = running;
  const invite = (email: string) => fixture.auth.createInvitation({ email }, ownerOf(fixture));
  const listed = async () => {
    const { invitations: rows } = await fixture.auth.listInvitations({}, ownerOf(fixture));
    return rows.map(({ email, status }) => [email, status]);
  };
  await invite('expired@example.com');
  const { invitation } = await invite('withdrawn@example.com');
  await fixture.auth.deleteInvitation({ invitationId: invitation!.id }, ownerOf(fixture));
  clock.advance(96 * dayMs);
  await invite('pending@example.com');
  await removeOutdated({ database, clock });
  expect(await listed()).toEqual([
    ['pending@example.com', InvitationStatus.PENDING],
    ['withdrawn@example.com', InvitationStatus.WITHDRAWN],
    ['expired@example.com', InvitationStatus.EXPIRED],
  ]);
  // Their ids are dated by the machine's clock, which does not stand still.
  clock.advance(dayMs + 3_600_000);
  await removeOutdated({ database, clock });
  expect(await listed()).toEqual([['pending@example.com', InvitationStatus.PENDING]]);
  clock.advance(90 * dayMs);
  await removeOutdated({ database, clock });
  expect((await fixture.auth.listMail({}, operatorOf(fixture))).mails).toMatchObject([
    { mail: { toEmail: 'pending@example.com' }, status: MailStatus.DROPPED },
  ]);
});

test('however many mails and invitations have expired, all are removed in one round, and no others', async () => {
  await using running = await start();
  const { clock, fixture, database } = running;
  await mails(fixture, MailStatus.QUEUED, 1_500, '400');
  await mails(fixture, MailStatus.SENT, 2_500, '91');
  await mails(fixture, MailStatus.SENT, 10, '89');
  await invitations(fixture, 2_500, '98');
  await invitations(fixture, 10, '96');
  await removeOutdated({ database, clock });
  expect([await rowsIn(fixture, 'mails'), await rowsIn(fixture, 'invitations')]).toEqual([1_510, 10]);
});

test('what many wrong passwords leave behind is removed in one round, by as much as a statement can in its time', async () => {
  await using running = await start();
  const { clock, fixture, database } = running;
  await asTableOwner(
    fixture,
    `insert into login_throttles select decode(md5(nth::text), 'hex'), 1, now() - interval '25 hours', now() from generate_series(1, 2500) as nth`,
  );
  const removed: number[] = [];
  const query: ServiceDatabase['query'] = async (statement) => {
    const result = await database.query<never>(statement);
    if (statement.text.startsWith('delete from login_throttles')) removed.push(result.rowCount!);
    return result;
  };
  await removeOutdated({ database: { ...database, query }, clock });
  expect(removed).toEqual([1_000, 1_000, 500, 0]);
});

test('removing old mails and invitations reads only old ones', async () => {
  await using running = await start();
  const { clock, fixture, database } = running;
  await mails(fixture, MailStatus.SENT, 20_000, 'nth / 200.0');
  await invitations(fixture, 20_000, 'nth / 200.0');
  await asTableOwner(fixture, 'analyze');
  const plans: string[] = [];
  const explaining: ServiceDatabase['query'] = async (statement) => {
    if (/^delete from (mails|invitations) /.test(statement.text)) {
      const { rows } = await asTableOwner(fixture, `explain (costs off) ${statement.text}`, statement.values);
      plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'));
    }
    return database.query(statement);
  };
  await removeOutdated({ database: { ...database, query: explaining }, clock });
  const all = plans.join('\n');
  for (const index of ['mails_pkey', 'invitations_pkey']) expect(all).toContain(index);
  expect(all).not.toContain('Seq Scan');
  expect([await rowsIn(fixture, 'mails'), await rowsIn(fixture, 'invitations')]).toEqual([18_000, 19_400]);
});
