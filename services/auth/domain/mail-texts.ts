import { type Letter, letter } from '#shared/letter.ts';
import { oneLine } from '#shared/safe-text.ts';

export function invitationMail(invitation: {
  organization: string | null;
  role: string;
  link: string;
  expiresAt: Date;
}): Letter {
  const to =
    invitation.organization === null ? 'Model Gateway' : `${oneLine(invitation.organization)} on Model Gateway`;
  const until = invitation.expiresAt.toUTCString();
  return letter({
    subject: `You are invited to ${to}`,
    before: [
      invitation.organization === null
        ? 'You are invited to create an organization on Model Gateway and to be its owner.'
        : `You are invited to join ${to} as ${invitation.role === 'member' ? 'a' : 'an'} ${invitation.role}.`,
      'To accept, choose a password here:',
    ],
    link: invitation.link,
    after: [`The link works once, until ${until}. If you did not expect this email, ignore it.`],
  });
}

export function passwordResetMail(reset: { link: string; expiresAt: Date }): Letter {
  return letter({
    subject: 'Set a new password for Model Gateway',
    before: ['Somebody, probably you, asked for a new password. Set it here:'],
    link: reset.link,
    after: [
      `The link works once, until ${reset.expiresAt.toUTCString()}. If it was not you, ignore this email: your password stays as it is.`,
    ],
  });
}

export function passwordChangedMail(): Letter {
  return letter({
    subject: 'Your password was changed',
    before: [
      'The password of your Model Gateway account was changed, and all your sessions were ended.',
      'If it was not you, reset your password at once and tell an administrator of your organization.',
    ],
  });
}
