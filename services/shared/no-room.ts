import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { ErrorReason } from './errors.ts';

/** The reasons for which a budget refuses, as it has no room, each with the kind of budget that gives it. */
export const budgetsByNoRoomReason: ReadonlyMap<ErrorReason, BudgetKind> = new Map([
  [ErrorReason.SPEND_CAP_EXCEEDED, BudgetKind.API_KEY],
  [ErrorReason.COST_LIMIT_EXCEEDED, BudgetKind.USER],
  [ErrorReason.PAYG_CAP_EXCEEDED, BudgetKind.ORGANIZATION],
  [ErrorReason.CREDIT_BALANCE_EXHAUSTED, BudgetKind.ORGANIZATION],
]);
