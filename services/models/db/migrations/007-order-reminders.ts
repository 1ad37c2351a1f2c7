import { Migration } from '@mikro-orm/migrations';

/** What lists of reminders and the counts of retirements ask for: a reminder stays for each user and point of each retirement. */
export class OrderReminders extends Migration {
  override up(): void {
    this.addSql(`
      create index reminders_newest on reminders (due_at, id);
      create index reminders_of_retirement on reminders (retirement_id, status);
    `);
  }
}
