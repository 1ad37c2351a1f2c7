import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ReminderPoint } from '#gen/modelgateway/models/v1/reminder_pb.ts';
import { reminderMail } from './reminder-mail.ts';
import { reminderPlan, staleAtMs } from './reminder-points.ts';
import { type RetirementSchedule, retirementState } from './retirement.ts';
import { announced, checkWithdrawable, dated } from './retirement-changes.ts';

const dayMs = 86_400_000;
const note = { kind: 'note', text: 'None.' } as const;

describe('any sequence of changes', () => {
  type Step = { kind: 'announce' | 'date' | 'withdraw' | 'wait'; ms: number };
  const step = fc.record({
    kind: fc.constantFrom<Step['kind']>('announce', 'date', 'withdraw', 'wait'),
    ms: fc.integer({ min: -100, max: 100 }),
  });

  test('never moves deprecated_at, never sets a date before it, and never revives a retired model', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        let nowMs = 1_000_000;
        let schedule: RetirementSchedule | null = null;
        for (const { kind, ms } of steps) {
          const before: RetirementSchedule | null = schedule;
          const state = retirementState(before, nowMs);
          try {
            if (kind === 'wait') nowMs += Math.abs(ms);
            else if (kind === 'announce') {
              schedule = announced(
                'm',
                before,
                { sunsetAtMs: ms < 0 ? null : nowMs + ms, successor: note },
                null,
                nowMs,
              );
            } else if (kind === 'date' && before !== null) schedule = dated('m', before, nowMs + ms, nowMs);
            else if (kind === 'withdraw' && before !== null) {
              checkWithdrawable('m', before, nowMs);
              schedule = null;
            }
          } catch {
            expect(schedule).toBe(before);
          }
          if (state === 'retired') expect(schedule).toBe(before);
          if (before !== null && schedule !== null) expect(schedule.deprecatedAtMs).toBe(before.deprecatedAtMs);
          if (schedule?.sunsetAtMs != null) expect(schedule.sunsetAtMs).toBeGreaterThanOrEqual(schedule.deprecatedAtMs);
        }
      }),
    );
  });
});

test('a model retires at its date, to the millisecond', () => {
  const schedule = { deprecatedAtMs: 0, sunsetAtMs: 1_000, successor: note };
  expect(retirementState(schedule, 999)).toBe('dated');
  expect(retirementState(schedule, 1_000)).toBe('retired');
  expect(retirementState({ ...schedule, sunsetAtMs: null }, Number.MAX_SAFE_INTEGER)).toBe('announced');
  expect(retirementState(null, 0)).toBe('serving');
});

describe('reminders', () => {
  test('are due at the announcement, 30, 7 and 1 days before and on the day; past ones are skipped', () => {
    const plan = (days: number) =>
      reminderPlan(days * dayMs, 0, true).map(({ dueAtMs }) => (dueAtMs === null ? null : dueAtMs / dayMs));
    expect(plan(60)).toEqual([0, 30, 53, 59, 60]);
    expect(plan(30)).toEqual([0, null, 23, 29, 30]);
    expect(plan(0.5)).toEqual([0, null, null, null, 0.5]);
  });

  test('of the announcement are not planned again when the date moves', () => {
    expect(reminderPlan(60 * dayMs, 0, false).map(({ point }) => point)).not.toContain(ReminderPoint.ANNOUNCEMENT);
  });

  test('are stale as soon as the next one is due', () => {
    const plan = reminderPlan(60 * dayMs, 0, true).slice(1);
    for (const [index, { point }] of plan.slice(0, -1).entries()) {
      expect(staleAtMs(point, 60 * dayMs)).toBe(plan[index + 1]!.dueAtMs);
    }
  });

  test('stay one header line and plain words, whatever a name or note contains', () => {
    const hostile = 'a\r\nBcc: x@y.example\u0000\u2028<script>alert("1")</script>&\u202e';
    const mail = reminderMail({
      model: hostile,
      isPublic: true,
      schedule: { deprecatedAtMs: 0, sunsetAtMs: dayMs, successor: { kind: 'note', text: hostile } },
      point: ReminderPoint.ONE_DAY,
      publicUrl: 'https://gateway.example',
    });
    expect(mail.subject).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
    expect(mail.subject.length).toBeLessThanOrEqual(255);
    expect(mail.text).not.toMatch(/^Bcc:/m);
    expect(mail.html).not.toContain('<script');
    expect(mail.html).toContain('&#60;script&#62;');
  });

  test('are cut between two characters of a long name, and go in the direction of their language', () => {
    const { subject, html } = reminderMail({
      model: '💥'.repeat(127),
      isPublic: true,
      schedule: { deprecatedAtMs: 0, sunsetAtMs: dayMs, successor: { kind: 'note', text: 'אין יורש.' } },
      point: ReminderPoint.ONE_DAY,
      publicUrl: 'https://gateway.example',
    });
    expect(html).toContain('<p dir="auto">אין יורש.</p>');
    expect(subject.isWellFormed()).toBe(true);
    expect(subject).not.toContain('\ufffd');
    expect(subject.length).toBeLessThanOrEqual(255);
  });
});
