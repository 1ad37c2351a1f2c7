import { useState } from 'react';
import type { Invoice } from '../../api/types.ts';
import { Link } from '../../router/link.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import { InvoiceFilters, useInvoiceQuery } from '../billing/invoice-filters.tsx';
import { dueDay, invoiceMonth, PaymentStatus } from '../billing/invoices.tsx';
import { InvoiceActions, InvoiceDialog, type InvoiceQuestion } from './invoice-actions.tsx';

/** An organization's invoices. */
export function OrganizationInvoices({ tenantId }: { tenantId: string }) {
  const path = `/admin/organizations/${tenantId}`;
  const query = useInvoiceQuery();
  const [question, ask] = useState<InvoiceQuestion | null>(null);
  return (
    <>
      <PagedCard<Invoice>
        label="Invoices"
        title="Invoices"
        action={<InvoiceFilters />}
        wordy
        path={`${path}/invoices`}
        query={query}
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
          { name: '', end: true, cell: (invoice) => <InvoiceActions invoice={invoice} onAsk={ask} /> },
        ]}
        rowKey={(invoice) => invoice.id}
        empty={
          Object.values(query).every((value) => value === '') ? (
            <EmptyState icon="card" title="No invoices yet" />
          ) : (
            <EmptyState icon="search" title="No invoices match" />
          )
        }
      />
      <InvoiceDialog path={path} question={question} onClose={() => ask(null)} />
    </>
  );
}
