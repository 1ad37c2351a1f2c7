import type { PageParameters } from '../../router/routed-page.tsx';
import { InvoiceView } from '../billing/invoice.tsx';
import { InvoiceActions } from './invoice-actions.tsx';
import { useOrganizationName } from './organization-name.tsx';

/** An invoice of an organization. */
export function OperatorInvoice({ parameters: { id = '', invoiceId = '' } }: PageParameters) {
  const path = `/admin/organizations/${id}`;
  const name = useOrganizationName(id);
  return (
    <InvoiceView
      path={`${path}/invoices/${invoiceId}`}
      parent={{ name: 'Invoices', href: `/operator/organizations/${id}?tab=invoices` }}
      of={name && ` · ${name}`}
      actions={(invoice) => <InvoiceActions path={path} invoice={invoice} />}
    />
  );
}
