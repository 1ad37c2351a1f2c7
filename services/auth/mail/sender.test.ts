import type { AddressInfo } from 'node:net';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { Registry } from 'prom-client';
import { SMTPServer } from 'smtp-server';
import { expect, test } from 'vitest';
import { AuditActorType } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import { MailStatus } from '#gen/modelgateway/auth/v1/mail_pb.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { createLogger } from '#shared/logger.ts';
import { asService } from '#shared/rpc/caller.ts';
import { createSecretBox } from '#shared/secret-box.ts';
import {
  anonymous,
  ownerEmail,
  ownerPassword,
  publicUrl,
  startTestAuth,
  type TestAuth,
} from '../../../test/support/auth.ts';
import { freePort } from '../../../test/support/free-port.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { asTableOwner, operatorOf, ownerOf } from '../../../test/support/people.ts';
import { logCollector } from '../../../test/support/rpc-carriers.ts';
import { bothRefused, severalAddresses, useSeveralAddresses } from '../../../test/support/several-addresses.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { entities } from '../db/entities.ts';
import { createMailOutbox } from './outbox.ts';
import { startMailSender } from './sender.ts';

type Received = { to: string[]; raw: string };

type Step = 'AUTH' | 'MAIL FROM' | 'RCPT TO' | 'DATA';

/** A real mail server that keeps what it accepts, once `hold` resolves; `refusals` are its answers to the next mails instead. */
async function startMailServer(options: { port?: number; hold?: () => Promise<void> } = {}) {
  const received: Received[] = [];
  const refusals: { to?: Step; responseCode: number; message?: string | ((raw: string) => string) }[] = [];
  const refusalOf = (step: Step, raw = ''): Error | null => {
    const next = refusals[0];
    if (next === undefined || (next.to ?? 'DATA') !== step) return null;
    refusals.shift();
    const { message = 'not now', responseCode } = next;
    return Object.assign(new Error(typeof message === 'string' ? message : message(raw)), { responseCode });
  };
  const server = new SMTPServer({
    authOptional: true,
    onAuth({ username }, _session, done) {
      const refusal = refusalOf('AUTH');
      if (refusal === null) done(null, { user: username });
      else done(refusal);
    },
    onMailFrom: (_address, _session, done) => done(refusalOf('MAIL FROM')),
    onRcptTo: (_address, _session, done) => done(refusalOf('RCPT TO')),
    // The sender keeps its connections; closing does not wait for it.
    closeTimeout: 50,
    disabledCommands: ['STARTTLS'],
    onData(stream, mailSession, done) {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk) => chunks.push(chunk));
      stream.on('end', async () => {
        await options.hold?.();
        const raw = Buffer.concat(chunks).toString();
        const refusal = refusalOf('DATA', raw);
        if (refusal !== null) {
          done(refusal);
          return;
        }
        received.push({
          to: mailSession.envelope.rcptTo.map(({ address }) => address),
          raw,
        });
        done();
      });
    },
  });
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, '127.0.0.1', resolve));
  const { port } = server.server.address() as AddressInfo;
  const close = () => new Promise<void>((resolve) => server.close(() => resolve()));
  const url = `smtp://gateway:password@127.0.0.1:${port}`;
  return { received, refusals, port, url, close, [Symbol.asyncDispose]: close };
}

const mail = (dedupeKey: string, fields: object = {}) => ({
  dedupeKey,
  kind: 'model_retirement',
  toEmail: 'reader@example.com',
  subject: 'A model retires',
  text: 'It retires.',
  ...fields,
});
const listed = async (fixture: TestAuth, kind = '') =>
  (await fixture.auth.listMail({ kind }, operatorOf(fixture))).mails;
const statusIs = (fixture: TestAuth, status: MailStatus) =>
  waitFor(async () => (await listed(fixture))[0]?.status === status, { description: `the mail to be ${status}` });

test('a mail is delivered once, with a stable Message-ID, however often it is handed over', async () => {
  await using server = await startMailServer();
  await using fixture = await startTestAuth({ smtpUrl: server.url });
  const first = await fixture.auth.sendMail({ mails: [mail('a'), mail('b')] }, asService('models'));
  const again = await fixture.auth.sendMail({ mails: [mail('a', { text: 'Another text' })] }, asService('models'));
  expect([first.accepted, first.duplicates, again.accepted, again.duplicates]).toEqual([2, 0, 0, 1]);
  await waitFor(() => server.received.length === 2, { description: 'both mails' });
  const ids = server.received.map(({ raw }) => /^Message-ID: (<.+>)/m.exec(raw)?.[1]);
  expect(new Set(ids).size).toBe(2);
  const mails = await listed(fixture);
  expect(ids.toSorted()).toEqual(mails.map(({ mail: sent }) => `<${sent!.messageId}>`).toSorted());
});

test('an invitation arrives with its link, and its token is in no list, no dump and, once sent, nowhere', async () => {
  await using server = await startMailServer();
  await using fixture = await startTestAuth({ smtpUrl: server.url });
  await fixture.auth.createInvitation({ email: 'guest@example.com' }, ownerOf(fixture));
  const [arrived] = await waitFor(() => server.received.length === 1 && server.received, { description: 'the mail' });
  expect(arrived!.to).toEqual(['guest@example.com']);
  const unfolded = arrived!.raw.replace(/=\r\n/g, '').replaceAll('=3D', '=');
  // The page asks whose invitation it is: the link says nothing but the token.
  const token = /https:\/\/gateway\.example\/accept-invite\?token=([\w-]{43})\s/.exec(unfolded)![1]!;
  await statusIs(fixture, MailStatus.SENT);
  expect(JSON.stringify(await listed(fixture), (_, value) => (typeof value === 'bigint' ? 0 : value))).not.toContain(
    token,
  );
  const { rows } = await asTableOwner(
    fixture,
    `select mails::text || coalesce(encode(sealed_body, 'escape'), '') as row from mails`,
  );
  expect(rows[0].row).not.toContain(token);
  expect((await asTableOwner(fixture, 'select sealed_body from mails')).rows[0].sealed_body).toBeNull();
  await fixture.auth.acceptInvitation({ token, password: 'Str0ng-password' }, anonymous());
});

test('a temporary refusal is retried later, a permanent one is not', async () => {
  await using server = await startMailServer();
  const clock = new ManualClock(Date.now());
  await using fixture = await startTestAuth({ smtpUrl: server.url, clock });
  server.refusals.push({ responseCode: 451 });
  await fixture.auth.sendMail({ mails: [mail('later')] }, asService('models'));
  await waitFor(async () => (await listed(fixture))[0]?.lastError !== '', { description: 'the first refusal' });
  expect((await listed(fixture))[0]).toMatchObject({ status: MailStatus.QUEUED, attempts: 1 });
  expect(server.received).toHaveLength(0);
  clock.advance(10_000);
  await statusIs(fixture, MailStatus.SENT);

  server.refusals.push({ responseCode: 550 });
  await fixture.auth.sendMail({ mails: [mail('never')] }, asService('models'));
  await statusIs(fixture, MailStatus.FAILED);
  expect(server.received).toHaveLength(1);
});

test('what a mail server says about the gateway, its login, its sender or its quota ends no mail, but what it says about the recipient does', async () => {
  await using server = await startMailServer();
  const clock = new ManualClock(Date.now());
  const lines: Record<string, unknown>[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line)) };
  const logger = createLogger({ level: 'warn', name: 'auth', destination });
  await using fixture = await startTestAuth({ smtpUrl: server.url, clock, logger });
  server.refusals.push(
    { to: 'AUTH', responseCode: 535 },
    { to: 'MAIL FROM', responseCode: 550 },
    { to: 'RCPT TO', responseCode: 530, message: '5.7.0 Authentication required' },
    { to: 'RCPT TO', responseCode: 554, message: '5.7.1 <reader@example.com>: Relay access denied' },
    { to: 'DATA', responseCode: 550, message: '5.4.5 Daily user sending limit exceeded' },
  );
  await fixture.auth.sendMail({ mails: [mail('later')] }, asService('models'));
  for (const [attempts, waitMs] of [
    [1, 10_000],
    [2, 20_000],
    [3, 40_000],
    [4, 80_000],
    [5, 160_000],
  ] as const) {
    const isRefused = async () => {
      const [kept] = await listed(fixture);
      return kept!.attempts === attempts && kept!.lastError !== '';
    };
    await waitFor(isRefused, { description: `refusal ${attempts}` });
    expect((await listed(fixture))[0]?.status).toBe(MailStatus.QUEUED);
    clock.advance(waitMs);
  }
  await statusIs(fixture, MailStatus.SENT);

  server.refusals.push({ to: 'RCPT TO', responseCode: 550, message: '<reader@example.com> is nobody here' });
  await fixture.auth.sendMail({ mails: [mail('never')] }, asService('models'));
  await statusIs(fixture, MailStatus.FAILED);
  expect(server.received).toHaveLength(1);
  // What the next try makes up for is not logged.
  expect(lines.map(({ msg }) => msg)).toEqual([
    ...Array<string>(4).fill('handing emails to the mail server failed; the emails will be retried'),
    'an email could not be sent and was given up',
  ]);
  expect(JSON.stringify(lines)).not.toContain('reader@example.com');
});

test('what a mail server says is kept and logged without the token of a link that it quotes', async () => {
  await using server = await startMailServer();
  const lines: string[] = [];
  const logger = createLogger({ level: 'warn', name: 'auth', destination: { write: (line) => void lines.push(line) } });
  await using fixture = await startTestAuth({ smtpUrl: server.url, logger });
  let token = '';
  const message = (raw: string): string => {
    const [link] = /https:\S+\?token=[\w-]{43}/.exec(raw.replace(/=\r\n/g, '').replaceAll('=3D', '='))!;
    token = link!.slice(-43);
    return `listed: ${link}`;
  };
  server.refusals.push({ responseCode: 550, message });
  await fixture.auth.createInvitation({ email: 'guest@example.com' }, ownerOf(fixture));
  await statusIs(fixture, MailStatus.FAILED);
  const lastError = (await listed(fixture))[0]!.lastError;
  expect(lastError).toContain('listed: https://gateway.example/accept-invite?');
  expect(lastError).not.toContain(token);
  expect(lines.join('')).toContain('listed: https://');
  expect(lines.join('')).not.toContain(token);
});

test('a mail is tried until it expires, however long the mail server is unreachable, and one without an expiry for two days', async () => {
  const away = await startMailServer();
  await away.close();
  const clock = new ManualClock(Date.now());
  await using fixture = await startTestAuth({ smtpUrl: away.url, clock });
  const expiresAt = timestampFromMs(clock.now() + 7 * 86_400_000);
  await fixture.auth.sendMail({ mails: [mail('expires', { expiresAt }), mail('does not')] }, asService('models'));
  const triesFailed = (attempts: number) =>
    waitFor(async () => (await listed(fixture)).every((kept) => kept.attempts === attempts && kept.lastError !== ''), {
      description: `try ${attempts} of both`,
    });
  await triesFailed(1);
  await asTableOwner(fixture, 'update mails set attempts = 19');
  clock.advance(10_000);
  await triesFailed(20);
  const statuses = (await listed(fixture)).map(({ mail: kept, status }) => [kept!.dedupeKey, status]);
  expect(Object.fromEntries(statuses)).toEqual({ expires: MailStatus.QUEUED, 'does not': MailStatus.FAILED });
});

test('the mail of a withdrawn invitation, or of a reset voided by another new password, is not sent', async () => {
  await using server = await startMailServer();
  const clock = new ManualClock(Date.now());
  await using fixture = await startTestAuth({ smtpUrl: server.url, clock });
  server.refusals.push({ responseCode: 451 }, { responseCode: 451 });
  const { invitation } = await fixture.auth.createInvitation({ email: 'guest@example.com' }, ownerOf(fixture));
  await fixture.auth.forgotPassword({ email: ownerEmail }, anonymous());
  await waitFor(async () => (await listed(fixture)).every(({ lastError }) => lastError !== ''), {
    description: 'both mails to be tried again later',
  });
  await fixture.auth.deleteInvitation({ invitationId: invitation!.id }, ownerOf(fixture));
  const passwords = { currentPassword: ownerPassword, newPassword: 'Another-str0ng-one' };
  await fixture.auth.changePassword(passwords, ownerOf(fixture));
  clock.advance(10_000);
  await waitFor(async () => (await listed(fixture)).every(({ status }) => status !== MailStatus.QUEUED), {
    description: 'the end of all mails',
  });
  const statuses = (await listed(fixture)).map(({ mail: { kind } = { kind: '' }, status }) => [kind, status]);
  expect(Object.fromEntries(statuses)).toEqual({
    invitation: MailStatus.DROPPED,
    password_reset: MailStatus.DROPPED,
    password_changed: MailStatus.SENT,
  });
  expect(server.received.map(({ to }) => to)).toEqual([[ownerEmail]]);
});

test('the mail of an invitation that was accepted meanwhile, as with a link passed on by hand, is not sent', async () => {
  await using server = await startMailServer();
  const clock = new ManualClock(Date.now());
  await using fixture = await startTestAuth({ smtpUrl: server.url, clock });
  let token = '';
  const readLink = (raw: string): string => {
    token = /token=3D([\w-]{43})/.exec(raw.replaceAll('=\r\n', ''))![1]!;
    return 'not now';
  };
  server.refusals.push({ responseCode: 451, message: readLink });
  await fixture.auth.createInvitation({ email: 'guest@example.com' }, ownerOf(fixture));
  const end = async () => (await listed(fixture))[0];
  await waitFor(async () => (await end())?.lastError !== '', { description: 'the mail to be tried again later' });
  await fixture.auth.acceptInvitation({ token, password: ownerPassword, firstName: 'G', lastName: 'H' }, anonymous());
  clock.advance(10_000);
  await waitFor(async () => (await end())?.status !== MailStatus.QUEUED, { description: 'the end of the mail' });
  expect([(await end())?.status, server.received]).toEqual([MailStatus.DROPPED, []]);
});

test('a mail that was accepted is not sent again while that cannot be recorded, and cannot be withdrawn', async () => {
  await using server = await startMailServer();
  await using fixture = await startTestAuth({ smtpUrl: server.url, clock: new ManualClock(Date.now()) });
  // Fails as in a restart of Postgres; a sequence also counts what is rolled back.
  await asTableOwner(
    fixture,
    `create sequence failures;
     grant usage on sequence failures to public;
     create function fail() returns trigger language plpgsql as $$
       begin perform nextval('auth.failures'); raise 'going down' using errcode = '57P01'; end $$;
     create trigger fail before update on mails for each row when (new.sent_at is not null) execute function fail()`,
  );
  await fixture.auth.sendMail({ mails: [mail('taken by it')] }, asService('models'));
  await waitFor(async () => (await asTableOwner(fixture, 'select from failures where is_called')).rowCount === 1, {
    description: 'a failure',
  });
  const withdrawn = await fixture.auth.withdrawMail({ dedupeKeyPrefix: 'taken by' }, asService('models'));
  expect(withdrawn.dedupeKeys).toEqual([]);
  await asTableOwner(fixture, 'drop trigger fail on mails');
  await statusIs(fixture, MailStatus.SENT);
  expect((await listed(fixture))[0]).toMatchObject({ attempts: 1, lastError: '' });
  expect(server.received).toHaveLength(1);
});

test('a mail held up by a slow mail server is in nobody else’s hands, however many were due with it', async () => {
  const held: (() => void)[] = [];
  await using server = await startMailServer({ hold: () => new Promise((resolve) => held.push(resolve)) });
  const clock = new ManualClock(Date.now());
  await using fixture = await startTestAuth({ smtpUrl: server.url, clock });
  await fixture.auth.sendMail({ mails: [1, 2, 3, 4].map((nth) => mail(`slow mail ${nth}`)) }, asService('models'));
  const twoAreHeld = () => waitFor(() => held.length === 2, { description: 'two mails in the server’s hands' });
  await twoAreHeld();
  // As long as a server may take that nearly runs into the time-out of each of ten commands.
  clock.advance(150_000);
  for (const release of held.splice(0)) release();
  await twoAreHeld();
  clock.advance(150_000);
  const withdrawn = await fixture.auth.withdrawMail({ dedupeKeyPrefix: 'slow mail' }, asService('models'));
  for (const release of held.splice(0)) release();
  await waitFor(() => server.received.length === 4, { description: 'all mails' });
  expect(withdrawn.dedupeKeys).toEqual([]);
});

test('a stop does not wait for a mail server that has gone silent, and the mail is tried again after the next start', async () => {
  let isSilent = false;
  const hold = () => {
    isSilent = !isSilent;
    return isSilent ? new Promise<never>(() => {}) : Promise.resolve();
  };
  await using server = await startMailServer({ hold });
  const clock = new ManualClock(Date.now());
  const secret = 'a secret of all processes, long enough';
  await using fixture = await startTestAuth({ clock, serviceSecrets: [secret] });
  const database = await openServiceDatabase({
    service: 'auth',
    connection: fixture.database.url,
    entities,
    logger: silentLogger,
  });
  const outbox = createMailOutbox({
    clock,
    secretBox: createSecretBox([secret], 'model-gateway auth secret box'),
    publicUrl,
    isSent: true,
  });
  const from = 'gateway@example.com';
  const sender = startMailSender({ database, clock, logger: silentLogger, outbox, smtpUrl: server.url, from }, 100);
  await fixture.auth.sendMail({ mails: [mail('held up')] }, asService('models'));
  await waitFor(() => isSilent, { description: 'the mail in the silent hands of the server' });
  const stoppedMs = performance.now();
  await sender.close();
  expect(performance.now() - stoppedMs).toBeLessThan(5_000);
  await database.close();
  const reason = 'The mail server did not take the mail before the gateway stopped.';
  expect((await listed(fixture))[0]).toMatchObject({ status: MailStatus.QUEUED, lastError: reason });
  clock.advance(10_000);
  const { database: same } = fixture;
  await using _next = await startTestAuth({ database: same, clock, smtpUrl: server.url, serviceSecrets: [secret] });
  await statusIs(fixture, MailStatus.SENT);
});

test('a mail server that is away delays mails and fails no request', async () => {
  const away = await startMailServer();
  await away.close();
  const clock = new ManualClock(Date.now());
  await using fixture = await startTestAuth({ smtpUrl: away.url, clock });
  await fixture.auth.createInvitation({ email: 'patient@example.com' }, ownerOf(fixture));
  await waitFor(async () => (await listed(fixture))[0]?.lastError !== '', { description: 'the failed try' });
  await using back = await startMailServer({ port: away.port });
  clock.advance(10_000);
  await statusIs(fixture, MailStatus.SENT);
  expect(back.received).toHaveLength(1);
});

test('operators read why none of a mail server’s addresses took a mail', async () => {
  using _ = useSeveralAddresses();
  await using fixture = await startTestAuth({ smtpUrl: `smtp://${severalAddresses}:1` });
  await fixture.auth.createInvitation({ email: 'patient@example.com' }, ownerOf(fixture));
  await waitFor(async () => bothRefused.test((await listed(fixture))[0]!.lastError), { description: 'both reasons' });
});

test('while a mail server takes no mail at all, only a few of the due mails are tried at a time', async () => {
  await using server = await startMailServer();
  const triedMs: number[] = [];
  for (let tries = 0; tries < 8; tries += 1) {
    server.refusals.push({
      to: 'MAIL FROM',
      responseCode: 451,
      get message() {
        triedMs.push(performance.now());
        return 'no disk space';
      },
    });
  }
  const { logger, lines } = logCollector('info');
  await using fixture = await startTestAuth({ smtpUrl: server.url, logger });
  const mails = Array.from({ length: 20 }, (_, nth) => mail(`mail ${nth}`));
  await fixture.auth.sendMail({ mails }, asService('models'));
  await waitFor(() => server.received.length === 12, { description: 'the mails that were not tried in vain' });
  // Two at a time, with half a second after each two.
  expect(triedMs.at(-1)! - triedMs[0]!).toBeGreaterThan(1_400);
  // Not for each mail: thousands may wait.
  expect(lines).toMatchObject([
    { msg: expect.stringContaining('the mail server failed'), err: expect.stringContaining('no disk space') },
    { msg: expect.stringContaining('the mail server works again'), failures: 8 },
  ]);
});

test('a stale mail, and one to someone who left, is dropped, and the outbox says which of them it is', async () => {
  await using server = await startMailServer();
  const clock = new ManualClock(Date.parse('2030-01-01T00:00:00Z'));
  await using fixture = await startTestAuth({ smtpUrl: server.url, clock });
  const dueAtMs = clock.now() + 60_000;
  const due = { sendAfter: timestampFromMs(dueAtMs), expiresAt: timestampFromMs(dueAtMs + 1) };
  await fixture.auth.sendMail({ mails: [mail('stale', due)] }, asService('models'));
  clock.advance(120_000);
  const droppedFor = (reason: string) =>
    waitFor(async () => (await listed(fixture))[0]!.lastError.includes(reason), { description: reason });
  await droppedFor('it has expired');
  await statusIs(fixture, MailStatus.DROPPED);
  const nobody = { toUserId: '01890000-0000-7000-8000-000000000000' };
  await fixture.auth.sendMail({ mails: [mail('left', nobody)] }, asService('models'));
  await statusIs(fixture, MailStatus.DROPPED);
  await droppedFor('no longer active');
  // What kept it from being sent in time is still told.
  server.refusals.push({ responseCode: 451, message: 'greylisted' });
  await fixture.auth.sendMail(
    { mails: [mail('late', { expiresAt: timestampFromMs(clock.now() + 60_000) })] },
    asService('models'),
  );
  await droppedFor('greylisted');
  clock.advance(120_000);
  await droppedFor('it has expired');
  await droppedFor('greylisted');
  expect(server.received).toHaveLength(0);
});

test('someone who waits for a mail in order to sign in gets it before mails that were due earlier', async () => {
  await using server = await startMailServer();
  const clock = new ManualClock(Date.parse('2030-01-01T00:00:00Z'));
  await using carried = await startTestAuth({ clock });
  const reminders = Array.from({ length: 20 }, (_, nth) => mail(`reminder ${nth}`));
  await carried.auth.sendMail({ mails: reminders }, asService('models'));
  clock.advance(60_000);
  await carried.auth.forgotPassword({ email: ownerEmail }, anonymous());
  await using sending = await startTestAuth({ database: carried.database, clock, smtpUrl: server.url });
  await waitFor(() => server.received.length === 21, { description: 'all mails' });
  // As many as are sent at a time.
  expect(server.received.slice(0, 2).flatMap(({ to }) => to)).toContain(ownerEmail);
  expect((await listed({ ...sending, owner: carried.owner }, 'password_reset'))[0]?.status).toBe(MailStatus.SENT);
});

test('a mail due in the future waits until then', async () => {
  await using server = await startMailServer();
  const clock = new ManualClock(Date.parse('2030-01-01T00:00:00Z'));
  await using fixture = await startTestAuth({ smtpUrl: server.url, clock });
  await fixture.auth.sendMail(
    { mails: [mail('later', { sendAfter: timestampFromMs(clock.now() + 60_000) }), mail('now')] },
    asService('models'),
  );
  await waitFor(() => server.received.length === 1, { description: 'the mail that is due' });
  clock.advance(60_000);
  await waitFor(() => server.received.length === 2, { description: 'the other' });
});

test('names cannot inject headers or HTML', async () => {
  await using server = await startMailServer();
  await using fixture = await startTestAuth({ smtpUrl: server.url });
  const name = 'Evil\r\nBcc: victim@example.com\r\n\r\n<img src=x onerror=alert(1)>';
  // Such a name is no longer accepted, but one may be left from before.
  await asTableOwner(fixture, 'update organizations set name = $1', [name]);
  await fixture.auth.createInvitation({ email: 'guest@example.com' }, ownerOf(fixture));
  const [arrived] = await waitFor(() => server.received.length === 1 && server.received, { description: 'the mail' });
  expect(arrived!.to).toEqual(['guest@example.com']);
  expect(arrived!.raw).not.toMatch(/^Bcc:/m);
  const html = arrived!.raw.slice(arrived!.raw.indexOf('text/html'));
  expect(html).not.toContain('<img');
});

test('without a mail server mails stay, for operators to deliver by hand, and raise no alarm as overdue', async () => {
  const registry = new Registry();
  await using fixture = await startTestAuth({ registry });
  await fixture.auth.forgotPassword({ email: ownerEmail }, anonymous());
  const [kept] = await listed(fixture, 'password_reset');
  expect(kept).toMatchObject({ status: MailStatus.QUEUED, attempts: 0 });
  expect(kept!.mail!.text).toContain('https://gateway.example/reset-password?token=');
  // The owner can see which operators could have used the link; each once, however often they read the outbox.
  await listed(fixture, 'password_reset');
  const colleague = { ...fixture, owner: { ...fixture.owner, userId: '01890000-0000-7000-8000-000000000000' } };
  await listed(colleague, 'password_reset');
  const { events } = await fixture.auth.listAuditEvents({ type: 'mail_link_shown' }, ownerOf(fixture));
  const target = { type: 'user', id: kept!.mail!.toUserId };
  expect(events.map(({ record }) => record)).toMatchObject([
    { actor: { type: AuditActorType.OPERATOR, id: colleague.owner.userId }, target },
    { actor: { type: AuditActorType.OPERATOR, id: fixture.owner.userId }, target },
  ]);
  const { rows } = await asTableOwner(fixture, `select encode(sealed_body, 'escape') as body from mails`);
  expect(rows[0].body).not.toContain('token=');
  expect(await registry.metrics()).not.toContain('outbox="mails"');
});

test('/metrics shows how many mails are due, and since when the oldest is', async () => {
  const clock = new ManualClock(Date.parse('2030-01-01T00:00:00Z'));
  const registry = new Registry();
  await using fixture = await startTestAuth({ clock, registry, smtpUrl: `smtp://127.0.0.1:${await freePort()}` });
  const inAMinute = timestampFromMs(clock.now() + 60_000);
  await fixture.auth.sendMail(
    { mails: [mail('now'), mail('later', { sendAfter: inAMinute }), mail('stale', { expiresAt: inAMinute })] },
    asService('models'),
  );
  const shown = async () => {
    const lines = (await registry.metrics()).split('\n').filter((line) => line.includes('outbox="mails"'));
    return Object.fromEntries(lines.map((line) => [line.split('{')[0], Number(line.split(' ').at(-1))]));
  };
  expect(await shown()).toEqual({ gateway_outbox_waiting: 2, gateway_outbox_oldest_seconds: 0 });
  clock.advance(90_000);
  expect(await shown()).toEqual({ gateway_outbox_waiting: 2, gateway_outbox_oldest_seconds: 90 });
});

test('a mail sealed under a secret that was removed is listed without its text', async () => {
  await using first = await startTestAuth();
  await first.auth.sendMail({ mails: [mail('old')] }, asService('models'));
  await using second = await startTestAuth({
    database: first.database,
    serviceSecrets: ['another secret, long enough'],
  });
  await second.auth.sendMail({ mails: [mail('new')] }, asService('models'));
  const texts = (await listed({ ...second, owner: first.owner })).map(({ mail: kept }) => [
    kept!.dedupeKey,
    kept!.text,
  ]);
  expect(texts).toEqual([
    ['new', 'It retires.'],
    ['old', ''],
  ]);
});
