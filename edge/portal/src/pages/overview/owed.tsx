import type { ReactNode } from 'react';
import { useGet, useIsAdmin } from '../../api/hooks.ts';
import type { Invoice, List, Wallet } from '../../api/types.ts';
import { formatCount, formatUsdExact } from '../../format/number.ts';
import { Link } from '../../router/link.tsx';
import { Badge } from '../../ui/badge.tsx';
import { type Loadable, together } from '../../ui/failure.tsx';
import { dueDay, ownInvoices } from '../billing/invoices.tsx';

/** What the organization owes, of which only admins and owners learn: empty for members. */
export type Owed = { wallet?: Wallet; overdue?: List<Invoice> };

/** How many invoices are named, the latest first. */
const namedMax = 3;

export function useOwed(wallet: Loadable<Wallet>): Loadable<Owed> {
  const enabled = useIsAdmin();
  const overdue = useGet<List<Invoice>>(ownInvoices, { payment_status: 'overdue', limit: namedMax }, { enabled });
  return together<Owed>(enabled ? { wallet, overdue } : {});
}

export function owedItems({ wallet, overdue }: Owed): readonly ReactNode[] {
  const owedUsd = Math.max(0, -(wallet?.balance_usd ?? 0));
  const others = overdue === undefined ? 0 : overdue.pagination.total - overdue.data.length;
  return [
    ...(overdue?.data ?? []).map((invoice) => (
      <OwedItem
        key={invoice.id}
        name={`Invoice ${invoice.number}`}
        href={`/billing/invoices/${invoice.id}`}
        badge={`Overdue: ${formatUsdExact(invoice.amount_due_usd)}`}
      >
        It was due on {dueDay(invoice)}.
      </OwedItem>
    )),
    ...(others > 0
      ? [
          <li key="other overdue invoices">
            <Link href="/billing?tab=invoices&payment=overdue" className="font-medium hover:underline">
              {formatCount(others)} more overdue {others === 1 ? 'invoice' : 'invoices'}
            </Link>
          </li>,
        ]
      : []),
    ...(owedUsd > 0
      ? [
          <OwedItem
            key="debt"
            name="The organization’s balance"
            href="/billing"
            badge={`${formatUsdExact(owedUsd)} owed`}
          >
            The next credit pays it first.
          </OwedItem>,
        ]
      : []),
  ];
}

type OwedItemProps = { name: string; href: string; badge: string; children: ReactNode };

function OwedItem({ name, href, badge, children }: OwedItemProps) {
  return (
    <li className="min-w-0">
      <span className="flex flex-wrap items-center gap-x-2 gap-y-1">
        <Link href={href} className="font-medium hover:underline">
          {name}
        </Link>
        <Badge tone="danger">{badge}</Badge>
      </span>
      <span className="text-soft">{children}</span>
    </li>
  );
}
