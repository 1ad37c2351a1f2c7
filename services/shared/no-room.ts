import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { ErrorReason } from './errors.ts';

/** The reasons with which a budget without room refuses, each with its kind of budget. */
export const budgetsByNoRoomReason: ReadonlyMap<ErrorReason, BudgetKind> = new Map([
  [ErrorReason.SPEND_CAP_EXCEEDED, BudgetKind.API_KEY],
  [ErrorReason.COST_LIMIT_EXCEEDED, BudgetKind.USER],
  [ErrorReason.PAYG_CAP_EXCEEDED, BudgetKind.ORGANIZATION],
  [ErrorReason.CREDIT_BALANCE_EXHAUSTED, BudgetKind.ORGANIZATION],
]);
