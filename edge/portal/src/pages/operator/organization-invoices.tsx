import type { Invoice } from '../../api/types.ts';
import { Link } from '../../router/link.tsx';
import { DayFilter, useDays } from '../../ui/day-filter.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import { dueDay, invoiceMonth, PaymentStatus } from '../billing/invoices.tsx';
import { InvoiceActions } from './invoice-actions.tsx';

/** An organization's invoices. */
export function OrganizationInvoices({ tenantId }: { tenantId: string }) {
  const path = `/admin/organizations/${tenantId}`;
  const [days, setDays] = useDays();
  return (
    <PagedCard<Invoice>
      label="Invoices"
      title="Invoices"
      action={<DayFilter days={days} onChange={setDays} />}
      wordy
      path={`${path}/invoices`}
      query={{ start_date: days.start, end_date: days.end }}
      columns={[
        {
          name: 'Invoice',
          cell: (invoice) => (
            <Link
              href={`/operator/organizations/${tenantId}/invoices/${invoice.id}`}
              className="font-medium hover:underline"
            >
              {invoice.number || 'Draft'}
            </Link>
          ),
        },
        { name: 'Month', cell: invoiceMonth },
        { name: 'Status', cell: (invoice) => <PaymentStatus invoice={invoice} /> },
        { name: 'Due', cell: dueDay },
        { name: 'Total', usd: (invoice) => invoice.total_usd },
        { name: '', end: true, cell: (invoice) => <InvoiceActions path={path} invoice={invoice} /> },
      ]}
      rowKey={(invoice) => invoice.id}
      empty={
        days.start === '' && days.end === '' ? (
          <EmptyState icon="card" title="No invoices yet" />
        ) : (
          <EmptyState icon="search" title="No invoices match" />
        )
      }
    />
  );
}
