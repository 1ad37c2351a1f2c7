import { escapeHtml, oneLine } from '#shared/safe-text.ts';

/** A mail's words. */
type MailText = { subject: string; text: string; html: string };

export function invitationMail(invitation: {
  organization: string | null;
  role: string;
  link: string;
  expiresAt: Date;
}): MailText {
  const to =
    invitation.organization === null ? 'Model Gateway' : `${oneLine(invitation.organization)} on Model Gateway`;
  const until = invitation.expiresAt.toUTCString();
  return letter(
    `You are invited to ${to}`,
    [
      invitation.organization === null
        ? 'You are invited to create an organization on Model Gateway and to be its owner.'
        : `You are invited to join ${to} as ${invitation.role === 'member' ? 'a' : 'an'} ${invitation.role}.`,
      'To accept, choose a password here:',
    ],
    invitation.link,
    [`The link works once, until ${until}. If you did not expect this email, ignore it.`],
  );
}

export function passwordResetMail(reset: { link: string; expiresAt: Date }): MailText {
  return letter(
    'Set a new password for Model Gateway',
    ['Somebody, probably you, asked for a new password. Set it here:'],
    reset.link,
    [
      `The link works once, until ${reset.expiresAt.toUTCString()}. If it was not you, ignore this email: your password stays as it is.`,
    ],
  );
}

export function passwordChangedMail(): MailText {
  return letter('Your password was changed', [
    'The password of your Model Gateway account was changed, and all your sessions were ended.',
    'If it was not you, reset your password at once and tell an administrator of your organization.',
  ]);
}

function letter(subject: string, before: readonly string[], link?: string, after: readonly string[] = []): MailText {
  const lines = [...before, ...(link === undefined ? [] : [link]), ...after];
  const paragraph = (line: string): string => `<p>${escapeHtml(line)}</p>`;
  const anchor = link === undefined ? '' : `<p><a href="${escapeHtml(link)}">${escapeHtml(link)}</a></p>`;
  return {
    subject,
    text: `${lines.join('\n\n')}\n`,
    html: [
      '<!doctype html>',
      `<html lang="en"><head><meta charset="utf-8"><title>${escapeHtml(subject)}</title></head><body>`,
      `${before.map(paragraph).join('')}${anchor}${after.map(paragraph).join('')}</body></html>`,
    ].join('\n'),
  };
}
