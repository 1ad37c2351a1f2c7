import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';
import { resetsAtMs, type Terms } from './budget.ts';

/** When to ask again for what others hold, in milliseconds: nobody knows when they will be finished. */
const heldRetryMs = 5_000;

/**
 * The refusal of a budget without room: reached, or, if `isHeld`, only held by others. Clients stop retrying when the message says "will
 * reset at" (openai-contract.md section 2). The waiting time is computed here, since a client's gateway may have another clock.
 */
export function budgetRefusal(
  kind: BudgetKind,
  { terms, nowMs }: { terms: Terms; nowMs: number },
  isHeld: boolean,
): GatewayError {
  const [reason, budget] = limitOf(kind, terms);
  if (isHeld) {
    const text = `All that is left of ${budget} is held by requests that are not finished. Try again shortly.`;
    return gatewayError(reason, text, { retryAfterMs: heldRetryMs });
  }
  const resetMs = resetsAtMs(kind, nowMs);
  const willReset = `will reset at ${new Date(resetMs).toISOString()}.`;
  const details = { resetsAtMs: resetMs, retryAfterMs: resetMs - nowMs };
  if (reason !== ErrorReason.CREDIT_BALANCE_EXHAUSTED) {
    return gatewayError(reason, `${budget[0]!.toUpperCase()}${budget.slice(1)} is reached. It ${willReset}`, details);
  }
  return terms.monthlyCreditNanoUsd === 0n
    ? gatewayError(reason, noCredit)
    : gatewayError(reason, `${noCredit} The credit included in its plan ${willReset}`, details);
}

function limitOf(kind: BudgetKind, { paygEnabled }: Terms): [reason: ErrorReason, budget: string] {
  if (kind === BudgetKind.API_KEY) return [ErrorReason.SPEND_CAP_EXCEEDED, "this API key's daily spend cap"];
  if (kind === BudgetKind.USER) return [ErrorReason.COST_LIMIT_EXCEEDED, 'your personal daily cost limit'];
  return paygEnabled
    ? [ErrorReason.PAYG_CAP_EXCEEDED, "the organization's monthly pay-as-you-go cap"]
    : [ErrorReason.CREDIT_BALANCE_EXHAUSTED, "the organization's credit"];
}

/** Nothing is added automatically except what a plan includes. */
const noCredit = "The organization has no credit left. Redeem a coupon, or ask the platform's operator for credit.";
