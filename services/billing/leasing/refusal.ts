import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';
import { resetsAtMs, type Terms } from './budget.ts';

/**
 * The refusal of a budget without room. Clients stop retrying when the message says "will reset at" (openai-contract.md section 2). The
 * waiting time is computed here, since a client's gateway may have another clock.
 */
export function budgetRefusal(kind: BudgetKind, terms: Terms, nowMs: number): GatewayError {
  const resetMs = resetsAtMs(kind, nowMs);
  const willReset = `will reset at ${new Date(resetMs).toISOString()}.`;
  const details = { resetsAtMs: resetMs, retryAfterMs: resetMs - nowMs };
  const refusal = (reason: ErrorReason, text: string) => gatewayError(reason, `${text} It ${willReset}`, details);
  switch (kind) {
    case BudgetKind.API_KEY:
      return refusal(ErrorReason.SPEND_CAP_EXCEEDED, "This API key's daily spend cap is reached.");
    case BudgetKind.USER:
      return refusal(ErrorReason.COST_LIMIT_EXCEEDED, 'Your personal daily cost limit is reached.');
    default:
      if (terms.paygEnabled) {
        return refusal(ErrorReason.PAYG_CAP_EXCEEDED, "The organization's monthly pay-as-you-go cap is reached.");
      }
      return terms.monthlyCreditNanoUsd === 0n
        ? gatewayError(ErrorReason.CREDIT_BALANCE_EXHAUSTED, noCredit)
        : gatewayError(
            ErrorReason.CREDIT_BALANCE_EXHAUSTED,
            `${noCredit} The credit included in its plan ${willReset}`,
            details,
          );
  }
}

/** Nothing is added automatically except what a plan includes. */
const noCredit = "The organization has no credit left. Redeem a coupon, or ask the platform's operator for credit.";
