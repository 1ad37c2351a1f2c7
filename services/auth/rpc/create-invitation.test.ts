import { expect, test } from 'vitest';
import { InvitationStatus } from '#gen/modelgateway/auth/v1/invitation_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { Role } from '#shared/rpc/caller.ts';
import { anonymous, session, startTestAuth, type TestAuth } from '../../../test/support/auth.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import {
  asTableOwner,
  join,
  operatorOf,
  ownerOf,
  strongPassword,
  tokenMailedTo,
} from '../../../test/support/people.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const startMs = Date.parse('2030-01-01T00:00:00Z');

const invite = (fixture: TestAuth, email: string, caller = ownerOf(fixture)) =>
  fixture.auth.createInvitation({ email }, caller);
const found = (fixture: TestAuth, ownerEmail: string, name = '') =>
  fixture.auth.adminCreateOrganization({ ownerEmail, name }, operatorOf(fixture));
const refusal = (promise: Promise<unknown>) =>
  promise.then(
    () => null,
    ({ reason, message, details }) => ({ reason, message, retryAfterMs: details.retryAfterMs }),
  );
const rowsIn = async (fixture: TestAuth, table: string): Promise<number> =>
  (await asTableOwner(fixture, `select from ${table}`)).rowCount!;

test('an organization can invite a hundred people an hour and have a hundred pending, which holds back nobody else', async () => {
  const clock = new ManualClock(startMs);
  await using fixture = await startTestAuth({ clock });
  for (let nth = 0; nth < 100; nth += 1) {
    await invite(fixture, `person-${nth}@example.com`);
    clock.advance(1_000);
  }
  // Withdrawn or not, each was a mail.
  const { invitations } = await fixture.auth.listInvitations({ page: { limit: 1 } }, ownerOf(fixture));
  await fixture.auth.deleteInvitation({ invitationId: invitations[0]!.id }, ownerOf(fixture));
  const mails = await rowsIn(fixture, 'mails');
  expect(await refusal(invite(fixture, 'one-more@example.com'))).toMatchObject({
    reason: ErrorReason.RATE_LIMITED,
    retryAfterMs: hourMs - 100_000,
  });
  expect(await rowsIn(fixture, 'mails')).toBe(mails);

  await found(fixture, 'founder@example.com', 'Second');
  const token = await tokenMailedTo(fixture, 'founder@example.com');
  const names = { firstName: 'F', lastName: 'L' };
  const { user } = await fixture.auth.acceptInvitation({ token, password: strongPassword, ...names }, anonymous());
  const stranger = session({ userId: user!.id, tenantId: user!.tenantId, role: Role.OWNER });
  expect(await refusal(invite(fixture, 'one-more@example.com', stranger))).toBe(null);

  clock.advance(hourMs - 100_000);
  expect(await refusal(invite(fixture, 'one-more@example.com'))).toBe(null);
  expect(await refusal(invite(fixture, 'two-more@example.com'))).toMatchObject({ reason: ErrorReason.RATE_LIMITED });

  clock.advance(hourMs);
  expect(await refusal(invite(fixture, 'two-more@example.com'))).toMatchObject({ reason: ErrorReason.CONFLICT });
  // In place of the one that it had.
  expect(await refusal(invite(fixture, 'one-more@example.com'))).toBe(null);
  const pending = await fixture.auth.listInvitations({ status: InvitationStatus.PENDING }, ownerOf(fixture));
  await fixture.auth.deleteInvitation({ invitationId: pending.invitations[0]!.id }, ownerOf(fixture));
  expect(await refusal(invite(fixture, 'two-more@example.com'))).toBe(null);
  expect(await refusal(invite(fixture, 'three-more@example.com'))).toMatchObject({ reason: ErrorReason.CONFLICT });
  // Nobody can accept those that have expired.
  clock.advance(7 * 24 * hourMs);
  expect(await refusal(invite(fixture, 'three-more@example.com'))).toBe(null);
});

test('an organization can send an address one invitation a minute, even if the first was withdrawn', async () => {
  const clock = new ManualClock(startMs);
  await using fixture = await startTestAuth({ clock });
  const { invitation } = await invite(fixture, 'reader@example.com');
  clock.advance(minuteMs - 20_000);
  const tooSoon = { reason: ErrorReason.RATE_LIMITED, retryAfterMs: 20_000 };
  expect(await refusal(invite(fixture, 'Reader@Example.com'))).toMatchObject(tooSoon);
  // The refused one has withdrawn nothing.
  await expect(fixture.auth.listInvitations({}, ownerOf(fixture))).resolves.toMatchObject({
    invitations: [{ id: invitation!.id, status: InvitationStatus.PENDING }],
  });
  await fixture.auth.deleteInvitation({ invitationId: invitation!.id }, ownerOf(fixture));
  expect(await refusal(invite(fixture, 'reader@example.com'))).toMatchObject(tooSoon);
  expect(await rowsIn(fixture, 'mails')).toBe(1);
  clock.advance(20_000);
  expect(await refusal(invite(fixture, 'reader@example.com'))).toBe(null);
  // Not for the hour by which the clock was ahead.
  clock.set(clock.now() - hourMs);
  expect(await refusal(invite(fixture, 'reader@example.com'))).toBe(null);
  expect(await refusal(invite(fixture, 'reader@example.com'))).toMatchObject({ retryAfterMs: minuteMs });
});

test("an operator's loop mails an address once a minute, and leaves no organizations behind", async () => {
  const clock = new ManualClock(startMs);
  await using fixture = await startTestAuth({ clock });
  await found(fixture, 'founder@example.com', 'Second');
  const organizations = await rowsIn(fixture, 'organizations');
  for (const name of ['Second', '']) {
    expect(await refusal(found(fixture, 'founder@example.com', name))).toMatchObject({
      reason: ErrorReason.RATE_LIMITED,
      retryAfterMs: minuteMs,
    });
  }
  expect([await rowsIn(fixture, 'organizations'), await rowsIn(fixture, 'mails')]).toEqual([organizations, 1]);
  expect(await refusal(found(fixture, 'another@example.com'))).toBe(null);
  clock.advance(minuteMs);
  expect(await refusal(found(fixture, 'founder@example.com'))).toBe(null);
  clock.set(clock.now() - hourMs);
  expect(await refusal(found(fixture, 'founder@example.com'))).toBe(null);
});

test("an organization's invitations hold back no other that invites the same person", async () => {
  await using fixture = await startTestAuth({ clock: new ManualClock(startMs) });
  await found(fixture, 'founder@example.com', 'Second');
  const token = await tokenMailedTo(fixture, 'founder@example.com');
  const names = { firstName: 'F', lastName: 'L' };
  const { user } = await fixture.auth.acceptInvitation({ token, password: strongPassword, ...names }, anonymous());
  await invite(fixture, 'wanted@example.com');
  const stranger = session({ userId: user!.id, tenantId: user!.tenantId, role: Role.OWNER });
  expect(await refusal(invite(fixture, 'wanted@example.com', stranger))).toBe(null);
});

test('neither an owner nor an operator can invite a deactivated member, who comes back by being reactivated', async () => {
  await using fixture = await startTestAuth();
  const { id: userId, email, tenantId } = await join(fixture, 'former@example.com');
  await fixture.auth.updateMember({ userId, isActive: false }, ownerOf(fixture));
  // Otherwise it is too soon after the invitation that was accepted.
  await asTableOwner(fixture, `update invitations set created_at = created_at - interval '1 hour'`);
  const refused = { reason: ErrorReason.CONFLICT, message: expect.stringContaining('reactivate') };
  expect(await refusal(invite(fixture, email))).toMatchObject(refused);
  expect(await refusal(fixture.auth.adminCreateInvitation({ tenantId, email }, operatorOf(fixture)))).toMatchObject(
    refused,
  );
});
