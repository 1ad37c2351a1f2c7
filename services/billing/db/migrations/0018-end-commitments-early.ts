import { Migration } from '@mikro-orm/migrations';

/** The period of a commitment that was ended before it began is empty. */
export class EndCommitmentsEarly extends Migration {
  override up(): void {
    this.addSql(`
      alter table commitments drop constraint commitments_check1,
        add constraint commitments_period_check check (period_start <= period_end);`);
  }
}
