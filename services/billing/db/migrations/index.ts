import type { NamedMigration } from '#shared/db/migrate.ts';
import { CreateBilling } from './0001-create-billing.ts';
import { AddRateLimits } from './0002-add-rate-limits.ts';
import { CheckByStatement } from './0003-check-by-statement.ts';
import { SetRefusedEventsAside } from './0004-set-refused-events-aside.ts';
import { NoteCreditMonth } from './0005-note-credit-month.ts';
import { KnowPaymentsById } from './0006-know-payments-by-id.ts';
import { KnowEarlierPayments } from './0007-know-earlier-payments.ts';
import { KeepWhatExpired } from './0008-keep-what-expired.ts';
import { BeginCreditWithItsMonth } from './0009-begin-credit-with-its-month.ts';
import { NoteIncludedCredit } from './0010-note-included-credit.ts';
import { OrderTransactions } from './0011-order-transactions.ts';
import { CountTransactions } from './0012-count-transactions.ts';
import { RememberVerification } from './0013-remember-verification.ts';
import { HoldByMonth } from './0014-hold-by-month.ts';
import { PauseVerification } from './0015-pause-verification.ts';
import { KnowMonthOfUsage } from './0016-know-month-of-usage.ts';
import { FindPastSpend } from './0017-find-past-spend.ts';
import { EndCommitmentsEarly } from './0018-end-commitments-early.ts';
import { LetCreditGoBelowZero } from './0019-let-credit-go-below-zero.ts';
import { TakePaymentsBack } from './0020-take-payments-back.ts';
import { KeepPayments } from './0021-keep-payments.ts';
import { UndoReturnsInPart } from './0022-undo-returns-in-part.ts';
import { KnowWhenRoomWasFound } from './0023-know-when-room-was-found.ts';

/** In the order in which they run. Released names never change. */
export const migrations: readonly NamedMigration[] = [
  { name: '0001-create-billing', class: CreateBilling },
  { name: '0002-add-rate-limits', class: AddRateLimits },
  { name: '0003-check-by-statement', class: CheckByStatement },
  { name: '0004-set-refused-events-aside', class: SetRefusedEventsAside },
  { name: '0005-note-credit-month', class: NoteCreditMonth },
  { name: '0006-know-payments-by-id', class: KnowPaymentsById },
  { name: '0007-know-earlier-payments', class: KnowEarlierPayments },
  { name: '0008-keep-what-expired', class: KeepWhatExpired },
  { name: '0009-begin-credit-with-its-month', class: BeginCreditWithItsMonth },
  { name: '0010-note-included-credit', class: NoteIncludedCredit },
  { name: '0011-order-transactions', class: OrderTransactions },
  { name: '0012-count-transactions', class: CountTransactions },
  { name: '0013-remember-verification', class: RememberVerification },
  { name: '0014-hold-by-month', class: HoldByMonth },
  { name: '0015-pause-verification', class: PauseVerification },
  { name: '0016-know-month-of-usage', class: KnowMonthOfUsage },
  { name: '0017-find-past-spend', class: FindPastSpend },
  { name: '0018-end-commitments-early', class: EndCommitmentsEarly },
  { name: '0019-let-credit-go-below-zero', class: LetCreditGoBelowZero },
  { name: '0020-take-payments-back', class: TakePaymentsBack },
  { name: '0021-keep-payments', class: KeepPayments },
  { name: '0022-undo-returns-in-part', class: UndoReturnsInPart },
  { name: '0023-know-when-room-was-found', class: KnowWhenRoomWasFound },
];
