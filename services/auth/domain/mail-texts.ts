import { type Letter, letter } from '#shared/letter.ts';
import { nameInMail } from '#shared/safe-text.ts';

export function invitationMail(invitation: {
  organization: string | null;
  role: string;
  link: string;
  expiresAt: Date;
}): Letter {
  const to =
    invitation.organization === null ? 'Model Gateway' : `${nameInMail(invitation.organization)} on Model Gateway`;
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

/** To the address that somebody wants to sign in with. */
export function confirmEmailMail(change: { from: string; link: string; expiresAt: Date }): Letter {
  return letter({
    subject: 'Confirm your new email address for Model Gateway',
    before: [
      `Somebody, probably you, asked to sign in to Model Gateway with this address instead of ${change.from}. Confirm it here:`,
    ],
    link: change.link,
    after: [
      `The link works once, until ${change.expiresAt.toUTCString()}. If you are not signed in, sign in with your present address first. If it was not you, ignore this email: nothing changes.`,
    ],
  });
}

/** To an address that somebody wants to sign in with, but that belongs to another account: only its reader may know. */
export function emailTakenMail(): Letter {
  return letter({
    subject: 'This email address already has a Model Gateway account',
    before: [
      'Somebody asked to use this address for another account of Model Gateway. Nothing was changed, since the address belongs to yours.',
      'If it was you, sign in with this address, or give this account another one first. If it was not you, ignore this email.',
    ],
  });
}

/** To the present address, while its reader can still prevent the change. */
export function emailChangeRequestedMail(change: { to: string }): Letter {
  return letter({
    subject: 'A new email address was requested for your account',
    before: [
      `Somebody, probably you, asked to sign in to your Model Gateway account with ${change.to} from now on. Nothing changes until that is confirmed by an email to the new address.`,
      'If it was not you, change your password at once: that voids the request. Then tell an administrator of your organization.',
    ],
  });
}

/** To the former address. */
export function emailChangedMail(change: { to: string; byOperator: boolean }): Letter {
  return letter({
    subject: 'Your email address was changed',
    before: [
      `${change.byOperator ? 'An operator of Model Gateway changed the address of your account. You' : 'The address of your Model Gateway account was changed. You'} now sign in with ${change.to}; this address has no account any more.`,
      'If you did not expect this, tell an administrator of your organization at once.',
    ],
  });
}

/** To the address that an operator has given somebody. */
export function emailSetMail(change: { from: string }): Letter {
  return letter({
    subject: 'You now sign in with this email address',
    before: [
      `An operator of Model Gateway changed the address of your account from ${change.from} to this one. Your password, your API keys and everything else stay as they are.`,
      'If you have no such account, tell the operator.',
    ],
  });
}
