import { expect, test } from 'vitest';
import { MailStatus } from '#gen/modelgateway/auth/v1/mail_pb.ts';
import { startTestAuth } from '../../../test/support/auth.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { join, operatorOf, ownerOf } from '../../../test/support/people.ts';

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
