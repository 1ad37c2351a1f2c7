import { dayMs } from '../../format/time.ts';
import type { AdminRetirement } from './types.ts';

export type Draft = {
  model: string;
  deprecatedAt: Date;
  sunsetAt: Date | null;
  successor: string;
  note: string;
  withdrawnAt: Date | null;
  /** Whether the first mail has been sent, so that the next one is a reminder. */
  mailed: boolean;
};

export function draftOf(retirement: AdminRetirement): Draft {
  return {
    model: retirement.model,
    deprecatedAt: new Date(retirement.deprecated_at),
    sunsetAt: retirement.sunset_at === null ? null : new Date(retirement.sunset_at),
    successor: retirement.replacement_model_name ?? '',
    note: retirement.retirement_note ?? '',
    withdrawnAt: retirement.withdrawn_at === null ? null : new Date(retirement.withdrawn_at),
    mailed: retirement.sunset_at !== null,
  };
}

/** The headers of every response that names the model, as the edge writes them (service.md, Retirement headers). */
export function previewHeaders({ model, deprecatedAt, sunsetAt, successor }: Draft, origin: string): string {
  const links = [`<${origin}/retirements/${encodeURIComponent(model)}>; rel="deprecation"; type="text/html"`];
  if (successor !== '') links.push(`<${origin}/v1/models/${encodeURIComponent(successor)}>; rel="successor-version"`);
  return [
    `Deprecation: @${Math.floor(deprecatedAt.getTime() / 1000)}`,
    ...(sunsetAt === null ? [] : [`Sunset: ${sunsetAt.toUTCString()}`]),
    `Link: ${links.join(', ')}`,
  ].join('\n');
}

/**
 * The next mail to a model's users, as Models writes it (services/models/domain/reminder-mail.ts); null without a date, since mails are
 * sent only once there is one.
 */
export function previewMail(
  { model, sunsetAt, successor, note, mailed }: Draft,
  isPublic: boolean,
  origin: string,
): string | null {
  if (sunsetAt === null) return null;
  const [day, time] = [sunsetAt.toISOString().slice(0, 10), sunsetAt.toISOString().slice(11, 16)];
  return [
    `Subject: ${mailed ? 'Reminder: ' : ''}${model} retires on ${day}`,
    `The model ${model} retires on ${day} at ${time} UTC.`,
    'Until then it serves every request unchanged. From then on, requests that name it get the status 410 and the error code model_sunset.',
    successor === '' ? note : `Its successor is ${successor}: use that name as the model.`,
    `${origin}/${isPublic ? 'retirements' : 'models'}/${encodeURIComponent(model)}`,
    'You are receiving this email because your organization used the model in the last 90 days, or has it on the allowlist of an API key.',
  ].join('\n\n');
}

/** Days before the retirement on which mails are due, besides the announcement. */
const mailDays = [30, 7, 1, 0];

/** Past is what is over by a minute, in which times are shown: what happens at this moment is not. */
export type TimelinePoint = { at: Date; name: string; past: boolean };
const minuteMs = 60_000;

/** Everything that happens from the announcement to the end. A point that has passed when the date is set is skipped, not sent late. */
export function timelineOf(
  { deprecatedAt, sunsetAt, withdrawnAt }: Pick<Draft, 'deprecatedAt' | 'sunsetAt' | 'withdrawnAt'>,
  now: Date,
): TimelinePoint[] {
  const points = [
    {
      at: deprecatedAt,
      name: sunsetAt === null ? 'Announced, no date: headers, no email' : 'Announced: headers and first email',
    },
  ];
  if (sunsetAt !== null) {
    for (const days of mailDays) {
      const at = new Date(sunsetAt.getTime() - days * dayMs);
      const name =
        days === 0
          ? 'Retired: 410, out of the listing, last email'
          : `Email: ${days} ${days === 1 ? 'day' : 'days'} left`;
      if (days === 0 || at > deprecatedAt) points.push({ at, name });
    }
  }
  const happening =
    withdrawnAt === null
      ? points
      : [...points.filter(({ at }) => at <= withdrawnAt), { at: withdrawnAt, name: 'Withdrawn: the model stays' }];
  return happening.map((point) => ({ ...point, past: point.at.getTime() + minuteMs <= now.getTime() }));
}
