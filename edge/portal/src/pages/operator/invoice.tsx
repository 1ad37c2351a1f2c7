import { useState } from 'react';
import type { PageParameters } from '../../router/routed-page.tsx';
import { InvoiceView } from '../billing/invoice.tsx';
import { callOfCharge } from './calls-filtered.ts';
import { InvoiceActions, InvoiceDialog, type InvoiceQuestion } from './invoice-actions.tsx';
import { useOrganizationName } from './organization-name.tsx';

/** An invoice of an organization. */
export function OperatorInvoice({ parameters: { id = '', invoiceId = '' } }: PageParameters) {
  const path = `/admin/organizations/${id}`;
  const name = useOrganizationName(id);
  const [question, ask] = useState<InvoiceQuestion | null>(null);
  return (
    <>
      <InvoiceView
        path={`${path}/invoices/${invoiceId}`}
        parent={{ name: 'Invoices', href: `/operator/organizations/${id}?tab=invoices` }}
        of={name && ` · ${name}`}
        callHref={callOfCharge}
        actions={(invoice) => <InvoiceActions invoice={invoice} onAsk={ask} />}
      />
      <InvoiceDialog path={path} question={question} onClose={() => ask(null)} />
    </>
  );
}
