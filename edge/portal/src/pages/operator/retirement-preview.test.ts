import { expect, test } from 'vitest';
import { draftOf, timelineOf } from './retirement-preview.ts';

const day = (number: number): string => new Date(Date.UTC(2031, 0, number)).toISOString();

test('a timeline says when users were told, not when they would have been: not before the date was set, nor for points that had passed', () => {
  const retirement = {
    id: 'r',
    model: 'm',
    deprecated_at: day(1),
    sunset_at: day(60),
    replacement_model_name: 's',
    retirement_note: null,
    withdrawn_at: null,
    reminders_sent: 2,
    reminders_pending: 0,
    reminder_points: [
      { point: 'announcement' as const, due_at: day(40), done_at: day(40) },
      { point: 'thirty_days' as const, due_at: null, done_at: null },
      // Sent before the date was moved later.
      { point: 'seven_days' as const, due_at: day(53), done_at: day(42) },
      { point: 'one_day' as const, due_at: day(59), done_at: null },
      { point: 'retirement_day' as const, due_at: day(60), done_at: null },
    ],
  };
  const timeline = timelineOf(draftOf(retirement), new Date(day(50)));
  expect(timeline.map(({ at, name, past }) => [at.toISOString(), name, past])).toEqual([
    [day(1), 'Announced, no date: headers, no email', true],
    [day(40), 'Date set: first email', true],
    [day(42), 'Email: 7 days left', true],
    [day(59), 'Email: 1 day left', false],
    [day(60), 'Retired: 410, out of the listing, last email', false],
  ]);
});
