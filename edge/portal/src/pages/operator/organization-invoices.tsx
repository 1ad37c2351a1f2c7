import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import type { Invoice } from '../../api/types.ts';
import { formatUsdExact } from '../../format/number.ts';
import { Button } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { DayFilter, useDays } from '../../ui/day-filter.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import type { Column } from '../../ui/table.tsx';
import { useToast } from '../../ui/toast.tsx';
import { dueDay, invoiceMonth, PaymentStatus } from '../billing/invoices.tsx';

type Act = { invoice: Invoice; what: 'pay' | 'void' };

/** An organization's invoices. An operator can mark one as paid elsewhere, or void it. */
export function OrganizationInvoices({ path }: { path: string }) {
  const toast = useToast();
  const [days, setDays] = useDays();
  const [act, setAct] = useState<Act | null>(null);
  const change = useAction<Invoice>({
    stale: ['/admin/organizations', '/billing'],
    onSuccess: ({ number, status }) => {
      toast.say(status === 'voided' ? `${number} was voided.` : `${number} was marked as paid.`);
      setAct(null);
    },
  });
  const ask = (next: Act) => {
    change.reset();
    setAct(next);
  };
  return (
    <>
      <PagedCard<Invoice>
        label="Invoices"
        title="Invoices"
        action={<DayFilter days={days} onChange={setDays} />}
        wordy
        path={`${path}/invoices`}
        query={{ start_date: days.start, end_date: days.end }}
        columns={columnsOf(ask)}
        rowKey={(invoice) => invoice.id}
        empty={
          days.start === '' && days.end === '' ? (
            <EmptyState icon="card" title="No invoices yet" />
          ) : (
            <EmptyState icon="search" title="No invoices match" />
          )
        }
      />
      {act !== null && (
        <ConfirmDialog
          title={act.what === 'pay' ? `Mark ${act.invoice.number} as paid?` : `Void ${act.invoice.number}?`}
          description={
            act.what === 'pay'
              ? `${formatUsdExact(act.invoice.total_usd)} has been paid elsewhere. This cannot be undone.`
              : `Nobody will have to pay ${formatUsdExact(act.invoice.total_usd)}. This cannot be undone.`
          }
          act={act.what === 'pay' ? 'Mark as paid' : 'Void'}
          pending={change.pending}
          error={change.error}
          onAct={() => change.run({ method: 'POST', path: `${path}/invoices/${act.invoice.id}/${act.what}` })}
          onClose={() => setAct(null)}
        />
      )}
    </>
  );
}

const columnsOf = (ask: (act: Act) => void): readonly Column<Invoice>[] => [
  { name: 'Invoice', cell: (invoice) => <span className="font-medium">{invoice.number || 'Draft'}</span> },
  { name: 'Month', cell: invoiceMonth },
  { name: 'Status', cell: (invoice) => <PaymentStatus invoice={invoice} /> },
  { name: 'Due', cell: dueDay },
  { name: 'Total', usd: (invoice) => invoice.total_usd },
  {
    name: '',
    end: true,
    cell: (invoice) =>
      invoice.status === 'finalized' &&
      invoice.payment_status !== 'paid' && (
        <span className="inline-flex gap-2">
          <Button
            size="small"
            aria-label={`Mark as paid: ${invoice.number}`}
            onClick={() => ask({ invoice, what: 'pay' })}
          >
            Mark as paid
          </Button>
          <Button size="small" aria-label={`Void ${invoice.number}`} onClick={() => ask({ invoice, what: 'void' })}>
            Void
          </Button>
        </span>
      ),
  },
];
