import { Migration } from '@mikro-orm/migrations';

/** Those who were told another date are told of each move. */
export class TellOfMovedDates extends Migration {
  override up(): void {
    this.addSql(`
      alter table reminder_points drop constraint reminder_points_point_check, add check (point between 1 and 7);
      -- The date that the mail named; null: none, or it was sent before this was kept.
      alter table reminders add column sunset_at timestamptz;
      -- Each at most once per user, retirement and point (decisions.md, Models), or move; this also finds what a user was told.
      create unique index reminders_of_user on reminders (retirement_id, user_id, point, due_at);
      create unique index reminders_once on reminders (retirement_id, point, user_id) where point <> 7;
      alter table reminders drop constraint reminders_retirement_id_point_user_id_key;
    `);
  }
}
