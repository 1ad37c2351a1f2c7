import { dayMs } from '../../format/time.ts';
import type { AdminRetirement } from './types.ts';

/** Emails to a model's users: when they go out, or went out. */
type Mailing = { point: ReminderPoint; at: Date; isSent: boolean };
type ReminderPoint = AdminRetirement['reminder_points'][number]['point'];

export type Draft = {
  model: string;
  deprecatedAt: Date;
  sunsetAt: Date | null;
  successor: string;
  note: string;
  withdrawnAt: Date | null;
  /** Whether the first mail has been sent, so that the next one is a reminder. */
  mailed: boolean;
  mailings: readonly Mailing[];
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
    mailings: retirement.reminder_points.flatMap(({ point, due_at, done_at }) => {
      // The first ones go out when the date is set, even if the outbox gets them later.
      const at = point === 'announcement' ? (due_at ?? done_at) : (done_at ?? due_at);
      return at === null ? [] : [{ point, at: new Date(at), isSent: done_at !== null }];
    }),
  };
}

/** A draft with its date set at `now`, and the emails that Models then plans (services/models/domain/reminder-points.ts). */
export function withDate(draft: Draft, sunsetAt: Date, now: Date): Draft {
  const sent = (wanted: ReminderPoint) => draft.mailings.find(({ point, isSent }) => isSent && point === wanted);
  const first = draft.mailings.find(({ point }) => point === 'announcement');
  const others = leadDays.flatMap(([point, days]) => {
    const at = new Date(sunsetAt.getTime() - days * dayMs);
    return sent(point) ?? (at > now ? { point, at, isSent: false } : []);
  });
  return { ...draft, sunsetAt, mailings: [first ?? { point: 'announcement', at: now, isSent: false }, ...others] };
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

const leadDays: readonly (readonly [ReminderPoint, number])[] = [
  ['thirty_days', 30],
  ['seven_days', 7],
  ['one_day', 1],
  ['retirement_day', 0],
];

/** Past is what is over by a minute, in which times are shown: what happens at this moment is not. */
export type TimelinePoint = { at: Date; name: string; past: boolean };
const minuteMs = 60_000;

/** Everything that happens from the announcement to the end. Emails that are skipped, since their moment had passed, are not in it. */
export function timelineOf({ deprecatedAt, sunsetAt, withdrawnAt, mailings }: Draft, now: Date): TimelinePoint[] {
  const first = mailings.find(({ point }) => point === 'announcement');
  const isFirstAtOnce = first !== undefined && first.at <= deprecatedAt;
  const points = [
    {
      at: deprecatedAt,
      name: isFirstAtOnce ? 'Announced: headers and first email' : 'Announced, no date: headers, no email',
    },
    ...(first === undefined || isFirstAtOnce ? [] : [{ at: first.at, name: 'Date set: first email' }]),
    ...leadDays.flatMap(([wanted, days]) => {
      const mailing = mailings.find(({ point }) => point === wanted);
      if (mailing === undefined || days === 0) return [];
      return [{ at: mailing.at, name: `Email: ${days} ${days === 1 ? 'day' : 'days'} left` }];
    }),
    ...(sunsetAt === null ? [] : [{ at: sunsetAt, name: 'Retired: 410, out of the listing, last email' }]),
  ];
  const happening =
    withdrawnAt === null
      ? points
      : [...points.filter(({ at }) => at <= withdrawnAt), { at: withdrawnAt, name: 'Withdrawn: the model stays' }];
  const inOrder = happening.toSorted((one, other) => one.at.getTime() - other.at.getTime());
  return inOrder.map((point) => ({ ...point, past: point.at.getTime() + minuteMs <= now.getTime() }));
}
