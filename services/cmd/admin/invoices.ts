import {
  invoiceJson,
  invoiceStatuses,
  invoiceWithLinesJson,
  paymentStatuses,
} from '../../../edge/routes/api/billing/billing-json.ts';
import {
  type AdminArguments,
  type AdminCommand,
  argument,
  choice,
  existingOrganization,
  pageOf,
  pageOptions,
  textOption,
  timeOption,
} from './command.ts';

export const invoiceCommands: readonly AdminCommand[] = [
  {
    name: 'invoices list',
    usage: `<organization> [--status ${invoiceStatuses.names.join('|')}] [--payment-status ${paymentStatuses.names.join('|')}] [--page n] [--limit n]`,
    summary: "Lists an organization's invoices, newest first.",
    options: { ...pageOptions, status: { type: 'string' }, 'payment-status': { type: 'string' } },
    async run(context, args) {
      const filter = {
        page: pageOf(args),
        status: invoiceStatuses.value(choice(args, 'status', invoiceStatuses.names)),
        paymentStatus: paymentStatuses.value(choice(args, 'payment-status', paymentStatuses.names)),
      };
      const tenantId = await existingOrganization(context, args);
      const answer = await context.billing.listInvoices({ tenantId, ...filter }, context.asOperator);
      const columns = ['id', 'number', 'period_start', 'status', 'payment_status', 'due_date', 'total_usd'];
      return { output: answer.invoices.map(invoiceJson), page: answer.pageInfo, columns };
    },
  },
  {
    name: 'invoices find',
    usage: '<number>',
    summary: 'Shows whose invoice has a number.',
    async run({ billing, asOperator }, args) {
      const { tenantId, invoice } = await billing.findInvoice({ number: argument(args, 0, 'the number') }, asOperator);
      return { output: { organization: tenantId, ...invoiceJson(invoice!) } };
    },
  },
  {
    name: 'invoices show',
    usage: '<organization> <invoice>',
    summary: 'Shows an invoice with its line items.',
    async run({ billing, asOperator }, args) {
      const { invoice } = await billing.getInvoice(invoiceNamed(args), asOperator);
      return { output: invoiceWithLinesJson(invoice!) };
    },
  },
  {
    name: 'invoices pay',
    usage: '<organization> <invoice> [--payment id] [--paid-at time]',
    summary:
      'Records that the amount due of a finalized invoice was paid elsewhere, or by a payment that its provider names so, now by default.',
    options: { 'paid-at': { type: 'string' }, payment: { type: 'string' } },
    async run({ billing, asOperator }, args) {
      const request = {
        ...invoiceNamed(args),
        paidAt: timeOption(args, 'paid-at'),
        paymentId: textOption(args, 'payment'),
      };
      const { invoice } = await billing.markInvoicePaid(request, asOperator);
      return { output: invoiceWithLinesJson(invoice!) };
    },
  },
  {
    name: 'invoices void',
    usage: '<organization> <invoice>',
    summary: 'Takes a finalized, unpaid invoice back, for good.',
    async run({ billing, asOperator }, args) {
      const { invoice } = await billing.voidInvoice(invoiceNamed(args), asOperator);
      return { output: invoiceWithLinesJson(invoice!) };
    },
  },
];

const invoiceNamed = (args: AdminArguments) => ({
  tenantId: argument(args, 0, "the organization's id"),
  invoiceId: argument(args, 1, "the invoice's id"),
});
