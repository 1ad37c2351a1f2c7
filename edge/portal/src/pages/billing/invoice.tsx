import type { ReactNode } from 'react';
import { useGet } from '../../api/hooks.ts';
import type { InvoiceWithLines } from '../../api/types.ts';
import { formatQuantity } from '../../format/number.ts';
import { daysOfMonth, formatUtcRange, utcDay } from '../../format/time.ts';
import { Link } from '../../router/link.tsx';
import type { PageParameters } from '../../router/routed-page.tsx';
import { ButtonLink } from '../../ui/button.tsx';
import { Card, Facts, Figures } from '../../ui/card.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { decimalsMax, Money } from '../../ui/money.tsx';
import { Page } from '../../ui/page.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { ExportButton } from '../usage/export-button.tsx';
import { usageOfDays } from '../usage/usage-of-days.ts';
import { dueDay, invoiceMonth, ownInvoices, PaymentStatus } from './invoices.tsx';
import { PdfButton } from './pdf-button.tsx';
import { type CallHref, ownCall, Transactions } from './transactions.tsx';

export function InvoicePage({ parameters }: PageParameters) {
  return (
    <InvoiceView
      path={`${ownInvoices}/${parameters.id ?? ''}`}
      parent={{ name: 'Invoices', href: '/billing?tab=invoices' }}
      usageOfLine={usageOfLine}
      callHref={ownCall}
      actions={(invoice) => (
        <>
          <ButtonLink size="small" icon="chart" href={usageOfDays(daysOf(invoice), { ...ofAll, by: 'key' })}>
            Usage by key
          </ButtonLink>
          <ExportButton range={daysOf(invoice)} timezone="UTC" scope="tenant" size="small" />
        </>
      )}
    />
  );
}

type InvoiceViewProps = {
  /** Where the API has the invoice. */
  path: string;
  parent: { name: string; href: string };
  /** Whose invoice it is, where that could be anybody's. */
  of?: ReactNode;
  /** Where the calls of a line item are listed, for those whose own they are. */
  usageOfLine?: UsageOfLine;
  callHref: CallHref;
  /** What can be done with it, besides downloading it. */
  actions: (invoice: InvoiceWithLines) => ReactNode;
};

/** An invoice as its payer sees it, with its line items and transactions. */
export function InvoiceView({ path, parent, of, usageOfLine, callHref, actions }: InvoiceViewProps) {
  const invoice = useGet<InvoiceWithLines>(path, undefined, { keepPrevious: false });
  const data = invoice.data;
  return (
    <Page
      title={data === undefined ? 'Invoice' : data.number || 'Draft invoice'}
      parent={parent}
      badge={data === undefined ? undefined : <PaymentStatus invoice={data} />}
      description={
        data && (
          <>
            {invoiceMonth(data)}
            {of}
          </>
        )
      }
      actions={
        data && (
          <>
            {actions(data)}
            <PdfButton path={path} invoice={data} />
          </>
        )
      }
    >
      <Loaded of={invoice}>{(loaded) => <Details invoice={loaded} {...{ path, usageOfLine, callHref }} />}</Loaded>
    </Page>
  );
}

/** The UTC days that an invoice covers, the last one included. */
const daysOf = ({ period_start, period_end }: InvoiceWithLines) => ({
  start: utcDay(new Date(period_start)),
  end: utcDay(new Date(Date.parse(period_end) - 1)),
});

/** Everyone's usage, as an invoice has it. */
const ofAll = { scope: 'tenant', granularity: 'monthly' };

type Line = InvoiceWithLines['line_items'][number];
type UsageOfLine = (line: Line) => string;

/** Of the month that has its calls, which may be another than the invoice's. */
const usageOfLine: UsageOfLine = ({ model, usage_month }) =>
  usageOfDays(daysOfMonth(usage_month), { ...ofAll, by: 'request', model });

const columnsOf = (hrefOf: UsageOfLine | undefined): readonly Column<Line>[] => [
  {
    name: 'Description',
    cell: (line) =>
      hrefOf === undefined || line.model === '' ? (
        <span className="wrap-anywhere">{line.description}</span>
      ) : (
        <Link href={hrefOf(line)} className="wrap-anywhere hover:underline" title="Show its requests">
          {line.description}
        </Link>
      ),
  },
  {
    name: 'Quantity',
    end: true,
    // The description names what is counted.
    cell: (line) => `${formatQuantity(line.quantity)}${line.unit.startsWith('million_') ? ' million' : ''}`,
  },
  { name: 'Unit price', usd: (line) => line.unit_price_usd, exact: true },
  { name: 'Amount', usd: (line) => line.amount_usd, exact: true },
];

type DetailsProps = {
  invoice: InvoiceWithLines;
  path: string;
  usageOfLine: UsageOfLine | undefined;
  callHref: CallHref;
};

function Details({ invoice, path, usageOfLine, callHref }: DetailsProps) {
  return (
    <>
      <Card>
        <div className="grid grid-cols-[minmax(0,1fr)] gap-x-10 gap-y-3 lg:grid-cols-2">
          <Facts
            facts={[
              ['Period', `${formatUtcRange(invoice.period_start, invoice.period_end)} (UTC)`],
              ['Issued', <Time key="issued" value={invoice.issued_at} />],
              ...(invoice.status === 'voided'
                ? [['Due', 'Voided: no payment is due'] as const]
                : [
                    ['Due', dueDay(invoice)] as const,
                    ['Paid', <Time key="paid" value={invoice.paid_at} none="Not yet" />] as const,
                  ]),
            ]}
          />
          <Totals invoice={invoice} />
        </div>
      </Card>
      <Card flush title="Line items">
        <Table
          label="Line items"
          whole
          rows={invoice.line_items}
          columns={columnsOf(usageOfLine)}
          rowKey={(line) => `${line.description} ${line.unit} ${line.unit_price_usd}`}
          empty={<EmptyState icon="card" title="Nothing was used" />}
        />
      </Card>
      <Transactions path={`${path}/transactions`} narrowed={false} callHref={callHref} />
    </>
  );
}

function Totals({ invoice }: { invoice: InvoiceWithLines }) {
  const totals: readonly (readonly [string, number])[] = [
    ['Subtotal', invoice.subtotal_usd],
    ['Paid from commitment and credit', -invoice.credits_usd],
    ['Total', invoice.total_usd],
    ...(invoice.amount_due_usd > 0
      ? [['Amount due, rounded up to a whole cent', invoice.amount_due_usd] as const]
      : []),
  ];
  const decimals = decimalsMax(
    totals.map(([, usd]) => usd),
    true,
  );
  return (
    <Figures
      figures={totals.map(([name, usd]) => [
        name,
        // By color and not by weight: bold digits may be wider.
        <span key={name} className={name === 'Total' ? 'text-ink' : 'text-soft'}>
          <Money exact usd={usd} decimals={decimals} />
        </span>,
      ])}
    />
  );
}
