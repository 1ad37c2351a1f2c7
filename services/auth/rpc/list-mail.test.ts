import { expect, test } from 'vitest';
import { MailStatus } from '#gen/modelgateway/auth/v1/mail_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { anonymous, startTestAuth } from '../../../test/support/auth.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { join, operatorOf, ownerOf, strongPassword, tokenMailedTo } from '../../../test/support/people.ts';

test('without a mail server, too, a mail whose link no longer works is listed as dropped, without the link', async () => {
  const clock = new ManualClock(Date.parse('2030-01-01T00:00:00Z'));
  await using fixture = await startTestAuth({ clock });
  const list = async (status?: MailStatus) => {
    const { mails, page } = await fixture.auth.listMail(
      { ...(status !== undefined && { status }) },
      operatorOf(fixture),
    );
    expect(page?.total).toBe(BigInt(mails.length));
    for (const one of mails) expect(one.nextAttemptAt !== undefined).toBe(one.status === MailStatus.QUEUED);
    return mails.map((one) => [one.mail!.toEmail.split('@')[0], one.status, /\?token=/.test(one.mail!.text)]);
  };
  const invite = (name: string) =>
    fixture.auth.createInvitation({ email: `${name}@example.com` }, ownerOf(fixture)).then((made) => made.invitation!);
  const { QUEUED, DROPPED } = MailStatus;
  await invite('expired');
  clock.advance(7 * 86_400_000 - 1);
  const { id: invitationId } = await invite('withdrawn');
  await join(fixture, 'accepted@example.com');
  await invite('pending');
  const expiring = ['expired', QUEUED, true];
  expect((await list(QUEUED)).at(-1)).toEqual(expiring);
  await fixture.auth.deleteInvitation({ invitationId }, ownerOf(fixture));
  clock.advance(1);
  const pending = ['pending', QUEUED, true];
  const dropped = ['accepted', 'withdrawn', 'expired'].map((name) => [name, DROPPED, false]);
  expect(await list()).toEqual([pending, ...dropped]);
  expect([await list(QUEUED), await list(DROPPED)]).toEqual([[pending], dropped]);
});

test('a deactivation drops the mail with a link for a new password, and the link stays dead once the person is back', async () => {
  await using fixture = await startTestAuth();
  const { auth } = fixture;
  const email = 'deactivated@example.com';
  const { id: userId } = await join(fixture, email);
  await auth.forgotPassword({ email }, anonymous());
  const newest = async () => (await auth.listMail({ search: email }, operatorOf(fixture))).mails[0]!;
  const token = await tokenMailedTo(fixture, email);
  await auth.updateMember({ userId, isActive: false }, ownerOf(fixture));
  const { mail, status } = await newest();
  expect([mail!.kind, status, mail!.text]).toEqual(['password_reset', MailStatus.DROPPED, '']);
  await auth.updateMember({ userId, isActive: true }, ownerOf(fixture));
  await expect(auth.resetPassword({ token, newPassword: strongPassword }, anonymous())).rejects.toMatchObject({
    reason: ErrorReason.INVALID_CODE,
  });
});
