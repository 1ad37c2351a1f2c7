import { useGet, useIsAdmin } from '../../api/hooks.ts';
import type { Commitment, CurrentPlan, Wallet } from '../../api/types.ts';
import { formatCount, formatUsd, formatUsdExact } from '../../format/number.ts';
import { formatDate, formatUtcRange } from '../../format/time.ts';
import { useSearchParameter } from '../../router/router.ts';
import { Badge } from '../../ui/badge.tsx';
import { Card, Facts, Tile, TileRow } from '../../ui/card.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded, valueIn } from '../../ui/failure.tsx';
import { Meter } from '../../ui/meter.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Page } from '../../ui/page.tsx';
import { Skeleton } from '../../ui/skeleton.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { Time } from '../../ui/time.tsx';
import { BudgetCard } from '../limits/budget-card.tsx';
import { CouponCard } from './coupon-card.tsx';
import { Invoices } from './invoices.tsx';
import { ownCall, Transactions } from './transactions.tsx';

export function Billing() {
  const isAdmin = useIsAdmin();
  const [tab, setTab] = useSearchParameter('tab', 'overview');
  if (!isAdmin) {
    return (
      <Page title="Billing">
        <Notice>Only admins and owners of your organization see the wallet, invoices and transactions.</Notice>
        <div className="grid items-start gap-5 lg:grid-cols-2">
          <PlanCard />
          <BudgetCard
            title="Your daily limit"
            description="Across all your keys and sessions, per UTC day."
            path="/profile/cost-limit"
            editable
          />
        </div>
        <CouponCard />
      </Page>
    );
  }
  return (
    <Page title="Billing" description="Your organization’s credit, plan and invoices.">
      <Tabs
        label="Billing"
        value={tab}
        onChange={setTab}
        tabs={[
          { value: 'overview', label: 'Overview', content: <Overview /> },
          { value: 'invoices', label: 'Invoices', content: <Invoices /> },
          {
            value: 'transactions',
            label: 'Transactions',
            content: <Transactions path="/billing/documents/transactions" callHref={ownCall} />,
          },
        ]}
      />
    </Page>
  );
}

function Overview() {
  const wallet = useGet<Wallet>('/billing/wallet');
  const commitment = useGet<Commitment | null>('/billing/commitment');
  return (
    <>
      <TileRow columns={3}>
        <Tile
          label="Credit left"
          value={valueIn(wallet, (data) => formatUsd(data.balance_usd))}
          detail={valueIn(
            wallet,
            ({ lots, currency }) => `${lots.length} ${lots.length === 1 ? 'credit' : 'credits'} · ${currency}`,
          )}
        />
        <Tile label="Next to expire" value={valueIn(wallet, (data) => <NextExpiry wallet={data} />)} />
        <Tile
          label="Commitment left"
          value={valueIn(commitment, (data) => (data === null ? '—' : formatUsd(data.remaining_usd)))}
        />
      </TileRow>
      <Card flush title="Credit" description="In the order in which it is spent.">
        <Loaded of={wallet}>
          {({ lots, balance_usd }) => (
            <Table
              label="Credit lots"
              rows={lots}
              columns={lotColumns}
              rowKey={(lot) => lot.id}
              empty={<NoCredit owedUsd={Math.max(0, -balance_usd)} />}
            />
          )}
        </Loaded>
      </Card>
      <div className="grid items-start gap-5 lg:grid-cols-2">
        <div className="grid min-w-0 gap-5">
          <Card title="Commitment" description="Usage is paid from it first.">
            <Loaded of={commitment} skeleton={<Skeleton className="h-13 w-full" />}>
              {(data) =>
                data === null ? (
                  <p className="text-sm text-faint">None.</p>
                ) : (
                  <Meter
                    label={`${formatUtcRange(data.period_start, data.period_end)} (UTC)`}
                    value={data.consumed_usd}
                    max={data.amount_usd}
                    text={`${formatUsd(data.consumed_usd)} of ${formatUsdExact(data.amount_usd)}`}
                    detail={`${formatUsd(data.remaining_usd)} left`}
                  />
                )
              }
            </Loaded>
          </Card>
          <BudgetCard
            title="Pay-as-you-go cap"
            description="For the whole organization, per UTC month."
            path="/billing/payg-spend-cap"
            editable
          />
        </div>
        <div className="grid min-w-0 gap-5">
          <PlanCard />
          <CouponCard />
        </div>
      </div>
    </>
  );
}

/** Says so where calls go on without credit, which a balance of zero makes one doubt. */
function NoCredit({ owedUsd }: { owedUsd: number }) {
  const plan = useGet<CurrentPlan>('/plan/current');
  return (
    <EmptyState icon="card" title="No credit left">
      {owedUsd > 0 && `Your organization owes ${formatUsdExact(owedUsd)}, which the next credit pays first. `}
      {plan.data?.payg_enabled && 'Usage beyond credit is invoiced. '}Redeem a coupon, or ask the operator for credit.
    </EmptyState>
  );
}

/** In the reader's time zone, as in the list of lots. */
function NextExpiry({ wallet }: { wallet: Wallet }) {
  const dates = wallet.lots
    .flatMap((lot) => (lot.expires_at === null || lot.remaining_usd <= 0 ? [] : [lot.expires_at]))
    .sort();
  if (wallet.lots.length === 0) return '—';
  return dates[0] === undefined ? 'Never' : <time dateTime={dates[0]}>{formatDate(dates[0])}</time>;
}

const lotColumns: readonly Column<Wallet['lots'][number]>[] = [
  {
    name: 'Source',
    cell: (lot) => (
      <Badge>
        <span className="capitalize">{lot.source}</span>
      </Badge>
    ),
  },
  { name: 'Granted', usd: (lot) => lot.granted_usd, exact: true },
  { name: 'Left', usd: (lot) => lot.remaining_usd },
  {
    name: 'Expires',
    end: true,
    sortBy: (lot) => lot.expires_at ?? '9',
    cell: (lot) => <Time value={lot.expires_at} none="Never" />,
  },
];

function PlanCard() {
  const plan = useGet<CurrentPlan>('/plan/current');
  return (
    <Card title="Plan">
      <Loaded of={plan} skeleton={<Skeleton className="h-39 w-full" />}>
        {(data) => (
          <Facts
            facts={[
              ['Name', data.name],
              [
                'Pay as you go',
                data.payg_enabled ? 'Usage beyond credit is invoiced' : 'Off: calls stop when credit is used up',
              ],
              ['Monthly credit', formatUsdExact(data.included.monthly_credit_usd)],
              ...(data.included.features.length === 0
                ? []
                : [['Included', data.included.features.join(', ')] as const]),
              ['Requests per minute', formatCount(data.rate_limits.requests_per_minute)],
              ['Tokens per minute', formatCount(data.rate_limits.tokens_per_minute)],
              ['Concurrent requests', formatCount(data.rate_limits.concurrent_requests)],
            ]}
          />
        )}
      </Loaded>
    </Card>
  );
}
