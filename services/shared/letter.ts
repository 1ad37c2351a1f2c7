import { escapeHtml } from './safe-text.ts';

/** A mail's words. */
export type Letter = { subject: string; text: string; html: string };

/** A mail of plain paragraphs, the link being one of its own. */
export function letter(mail: {
  subject: string;
  before: readonly string[];
  link?: string;
  after?: readonly string[];
}): Letter {
  const { subject, before, link, after = [] } = mail;
  const paragraph = (line: string): string => `<p dir="auto">${escapeHtml(line)}</p>`;
  const anchor = link === undefined ? [] : [`<p><a href="${escapeHtml(link)}">${escapeHtml(link)}</a></p>`];
  return {
    subject,
    text: `${[...before, ...(link === undefined ? [] : [link]), ...after].join('\n\n')}\n`,
    html: [
      '<!doctype html>',
      `<html lang="en"><head><meta charset="utf-8"><title>${escapeHtml(subject)}</title></head><body>`,
      ...[...before.map(paragraph), ...anchor, ...after.map(paragraph)],
      '</body></html>',
      '',
    ].join('\n'),
  };
}
