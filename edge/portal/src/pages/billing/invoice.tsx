import { useGet } from '../../api/hooks.ts';
import type { InvoiceWithLines } from '../../api/types.ts';
import { formatQuantity, formatUsdExact } from '../../format/number.ts';
import { formatUtcDay, formatUtcRange } from '../../format/time.ts';
import type { PageParameters } from '../../router/routed-page.tsx';
import { Card, Facts } from '../../ui/card.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Money } from '../../ui/money.tsx';
import { Page } from '../../ui/page.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { invoiceMonth, PaymentStatus } from './invoices.tsx';
import { PdfButton } from './pdf-button.tsx';
import { Transactions } from './transactions.tsx';

export function InvoicePage({ parameters }: PageParameters) {
  const id = parameters.id ?? '';
  const invoice = useGet<InvoiceWithLines>(`/billing/documents/invoices/${id}`, undefined, { keepPrevious: false });
  const data = invoice.data;
  return (
    <Page
      title={data === undefined ? 'Invoice' : data.number || 'Draft invoice'}
      parent={{ name: 'Invoices', href: '/billing?tab=invoices' }}
      badge={data === undefined ? undefined : <PaymentStatus invoice={data} />}
      description={data === undefined ? undefined : invoiceMonth(data)}
      actions={data === undefined ? undefined : <PdfButton invoice={data} />}
    >
      <Loaded of={invoice}>{(loaded) => <Details invoice={loaded} />}</Loaded>
    </Page>
  );
}

type Line = InvoiceWithLines['line_items'][number];

const columns: readonly Column<Line>[] = [
  { name: 'Description', cell: (line) => <span className="wrap-anywhere">{line.description}</span> },
  {
    name: 'Quantity',
    end: true,
    cell: (line) => `${formatQuantity(line.quantity)} ${line.unit.replaceAll('_', ' ')}`,
  },
  { name: 'Unit price', end: true, cell: (line) => formatUsdExact(line.unit_price_usd) },
  { name: 'Amount', end: true, cell: (line) => <Money exact usd={line.amount_usd} /> },
];

function Details({ invoice }: { invoice: InvoiceWithLines }) {
  return (
    <>
      <Card>
        <div className="grid gap-x-10 gap-y-3 lg:grid-cols-2">
          <Facts
            facts={[
              ['Period', `${formatUtcRange(invoice.period_start, invoice.period_end)} (UTC)`],
              ['Issued', <Time key="issued" value={invoice.issued_at} />],
              ['Due', invoice.due_date ? formatUtcDay(invoice.due_date) : '—'],
              ['Paid', <Time key="paid" value={invoice.paid_at} none="Not yet" />],
            ]}
          />
          <Facts
            facts={[
              ['Subtotal', <Money key="subtotal" exact usd={invoice.subtotal_usd} />],
              [
                'Paid from commitment and credit',
                <Money key="credits" exact usd={-invoice.credits_usd} />,
              ],
              [
                'Total',
                <strong key="total">
                  <Money exact usd={invoice.total_usd} />
                </strong>,
              ],
              ...(invoice.amount_due_usd > 0
                ? [
                    [
                      'Amount due, rounded up to a whole cent',
                      <Money key="pay" usd={invoice.amount_due_usd} />,
                    ] as const,
                  ]
                : []),
            ]}
          />
        </div>
      </Card>
      <Card flush title="Line items">
        <Table
          label="Line items"
          rows={invoice.line_items}
          columns={columns}
          rowKey={(line) => `${line.description} ${line.unit} ${line.unit_price_usd}`}
          empty={<EmptyState icon="card" title="Nothing was used" />}
        />
      </Card>
      <Transactions path={`/billing/documents/invoices/${invoice.id}/transactions`} narrowed={false} />
    </>
  );
}
