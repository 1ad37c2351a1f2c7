import type { NamedMigration } from '#shared/db/migrate.ts';
import { CreateCatalog } from './001-create-catalog.ts';
import { CreateRetirements } from './002-create-retirements.ts';
import { CreateIdempotencyKeys } from './003-create-idempotency-keys.ts';
import { SetRefusedEventsAside } from './004-set-refused-events-aside.ts';
import { NoteWhereRegistered } from './005-note-where-registered.ts';
import { NoticeFailovers } from './006-notice-failovers.ts';
import { OrderReminders } from './007-order-reminders.ts';
import { TellOfWithdrawals } from './008-tell-of-withdrawals.ts';
import { ShareOpinions } from './009-share-opinions.ts';
import { WithdrawPrices } from './010-withdraw-prices.ts';

export const migrations: readonly NamedMigration[] = [
  { name: '001-create-catalog', class: CreateCatalog },
  { name: '002-create-retirements', class: CreateRetirements },
  { name: '003-create-idempotency-keys', class: CreateIdempotencyKeys },
  { name: '004-set-refused-events-aside', class: SetRefusedEventsAside },
  { name: '005-note-where-registered', class: NoteWhereRegistered },
  { name: '006-notice-failovers', class: NoticeFailovers },
  { name: '007-order-reminders', class: OrderReminders },
  { name: '008-tell-of-withdrawals', class: TellOfWithdrawals },
  { name: '009-share-opinions', class: ShareOpinions },
  { name: '010-withdraw-prices', class: WithdrawPrices },
];
