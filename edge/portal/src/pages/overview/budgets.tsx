import type { ReactNode } from 'react';
import { useGet, useIsAdmin, useWholeList } from '../../api/hooks.ts';
import type { ApiKey, Budget, Commitment, CurrentPlan, Wallet } from '../../api/types.ts';
import { formatUsd, formatUsdExact } from '../../format/number.ts';
import { Link } from '../../router/link.tsx';
import { Badge } from '../../ui/badge.tsx';
import { type Loadable, together } from '../../ui/failure.tsx';
import { Time } from '../../ui/time.tsx';

/** What the organization can pay, which only admins and owners may see. */
type Funds = { wallet: Wallet; commitment: Commitment | null };
/** What limits one's calls: the keys are those with a cap. */
export type Budgets = { ownLimit: Budget; keys: ApiKey[]; plan: CurrentPlan; paygCap: Budget; funds?: Funds };

export function useBudgets(wallet: Loadable<Wallet>): Loadable<Budgets> {
  const enabled = useIsAdmin();
  const ownLimit = useGet<Budget>('/profile/cost-limit');
  const keys = useWholeList<ApiKey>('/api-keys', { query: { status: 'active', has_spend_cap: true } });
  const plan = useGet<CurrentPlan>('/plan/current');
  const paygCap = useGet<Budget>('/billing/payg-spend-cap');
  const commitment = useGet<Commitment | null>('/billing/commitment', undefined, { enabled });
  const funds = together<Funds>({ wallet, commitment });
  return together<Budgets>({ ownLimit, keys, plan, paygCap, ...(enabled && { funds }) });
}

type ScarceBudget = {
  id: string;
  name: string;
  href: string;
  /** Which budget of the named thing it is. */
  kind?: string;
  leftUsd: number;
  resetsAt?: string;
  advice: ReactNode;
};

/** With this share of a budget left it is worth attention. Calls are refused once nothing is left: the last one may exceed the budget. */
const shareLeftMax = 0.1;

/** The budgets that refuse calls, or soon will: the organization's, one's own, and those of keys that are still in use. */
export function scarceBudgets(budgets: Budgets): readonly ScarceBudget[] {
  const { ownLimit, keys } = budgets;
  return [
    ...scarceFunds(budgets),
    ...budgetIfScarce(ownLimit.limit_usd, ownLimit.remaining_usd ?? 0, {
      id: 'own limit',
      name: 'Your daily limit',
      href: '/limits',
      resetsAt: ownLimit.resets_at,
      advice: 'You can raise it.',
    }),
    ...keys
      .filter((key) => key.budget?.spent_today_usd != null)
      .flatMap(({ id, name, spend_cap_usd, budget }) =>
        budgetIfScarce(spend_cap_usd, (spend_cap_usd ?? 0) - (budget?.spent_today_usd ?? 0), {
          id,
          name,
          href: `/keys/${id}`,
          kind: 'Daily cap',
          resetsAt: budget!.resets_at,
          advice: 'You can raise the cap.',
        }),
      ),
  ];
}

const budgetIfScarce = (
  limitUsd: number | null,
  leftUsd: number,
  budget: Omit<ScarceBudget, 'leftUsd'>,
): readonly ScarceBudget[] => (limitUsd !== null && leftUsd <= limitUsd * shareLeftMax ? [{ ...budget, leftUsd }] : []);

/**
 * Usage is paid from commitment and credit, then as one goes, up to the cap. Members are told once nothing is left, which their refused calls
 * tell them anyway.
 */
function scarceFunds({ plan, paygCap, funds }: Budgets): readonly ScarceBudget[] {
  const budget = plan.payg_enabled
    ? {
        id: 'pay-as-you-go cap',
        name: 'The organization’s pay-as-you-go cap',
        href: '/limits',
        resetsAt: paygCap.resets_at,
      }
    : { id: 'credit', name: 'The organization’s credit', href: '/billing' };
  if (funds === undefined) {
    const advice = 'Ask an admin or owner of your organization.';
    return plan.funds_exhausted ? [{ ...budget, leftUsd: 0, advice }] : [];
  }
  const { wallet, commitment } = funds;
  // What is owed is paid by credit to come, and takes nothing from a commitment.
  const creditLeftUsd = Math.max(0, wallet.balance_usd) + (commitment?.remaining_usd ?? 0);
  const creditUsd = wallet.lots.reduce((sum, lot) => sum + lot.granted_usd, commitment?.amount_usd ?? 0);
  if (plan.payg_enabled) {
    if (paygCap.limit_usd === null) return [];
    return budgetIfScarce(creditUsd + paygCap.limit_usd, creditLeftUsd + (paygCap.remaining_usd ?? 0), {
      ...budget,
      advice: 'You can raise it.',
    });
  }
  const monthlyUsd = plan.included.monthly_credit_usd;
  return budgetIfScarce(creditUsd, creditLeftUsd, {
    ...budget,
    advice: (
      <>
        Redeem a coupon, or ask the platform’s operator for credit.
        {monthlyUsd > 0 && (
          <>
            {' '}
            The plan gives {formatUsdExact(monthlyUsd)} on <Time value={paygCap.resets_at} />.
          </>
        )}
      </>
    ),
  });
}

export function ScarceBudgetItem({
  budget: { name, href, kind, leftUsd, resetsAt, advice },
}: {
  budget: ScarceBudget;
}) {
  const isNothingLeft = leftUsd <= 0;
  const left = `${isNothingLeft ? 'nothing' : formatUsd(leftUsd)} left`;
  return (
    <li className="min-w-0">
      <span className="flex flex-wrap items-center gap-x-2 gap-y-1">
        <Link href={href} className="font-medium wrap-anywhere hover:underline">
          {name}
        </Link>
        <Badge tone={isNothingLeft ? 'danger' : 'warn'}>
          {kind === undefined ? <span className="first-letter:uppercase">{left}</span> : `${kind}: ${left}`}
        </Badge>
      </span>
      <span className="text-soft wrap-anywhere">
        {isNothingLeft ? 'Every call that costs anything is refused' : 'Once nothing is left, calls are refused'}
        {resetsAt !== undefined && (
          <>
            {' '}
            until <Time value={resetsAt} />
          </>
        )}
        . {advice}
      </span>
    </li>
  );
}
