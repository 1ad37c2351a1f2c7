import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { ErrorReason, type GatewayError } from './errors.ts';

/** The reasons with which a budget without room refuses, each with its kind of budget. */
export const budgetsByNoRoomReason: ReadonlyMap<ErrorReason, BudgetKind> = new Map([
  [ErrorReason.SPEND_CAP_EXCEEDED, BudgetKind.API_KEY],
  [ErrorReason.COST_LIMIT_EXCEEDED, BudgetKind.USER],
  [ErrorReason.PAYG_CAP_EXCEEDED, BudgetKind.ORGANIZATION],
  [ErrorReason.CREDIT_BALANCE_EXHAUSTED, BudgetKind.ORGANIZATION],
]);

/** Whether a budget refuses only for what requests that are not finished hold: it may have room soon, long before it resets. */
export const isHeldByOthers = ({ reason, details }: GatewayError): boolean =>
  budgetsByNoRoomReason.has(reason) && details.retryAfterMs !== undefined && details.resetsAtMs === undefined;
