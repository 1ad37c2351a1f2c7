import { Migration } from '@mikro-orm/migrations';

/** Those who were told of a retirement are told of its withdrawal. */
export class TellOfWithdrawals extends Migration {
  override up(): void {
    this.addSql(`
      alter table reminder_points drop constraint reminder_points_point_check, add check (point between 1 and 6);
    `);
  }
}
