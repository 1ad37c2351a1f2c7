import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { expect, test } from 'vitest';
import {
  InvoiceLineItemSchema,
  InvoiceSchema,
  InvoiceStatus,
  PaymentStatus,
} from '#gen/modelgateway/billing/v1/invoice_pb.ts';
import { PriceUnit } from '#gen/modelgateway/billing/v1/price_usage_pb.ts';
import { invoiceJson, invoiceWithLinesJson } from './billing-json.ts';

const period = { periodStart: timestampFromMs(0), periodEnd: timestampFromMs(1) };
const asSent = (value: unknown) => JSON.parse(JSON.stringify(value));

test.each([
  [InvoiceStatus.DRAFT, PaymentStatus.PENDING, 0],
  [InvoiceStatus.FINALIZED, PaymentStatus.PENDING, 0.02],
  [InvoiceStatus.FINALIZED, PaymentStatus.OVERDUE, 0.02],
  [InvoiceStatus.FINALIZED, PaymentStatus.PAID, 0],
  [InvoiceStatus.VOIDED, PaymentStatus.PENDING, 0],
])('of an invoice with status %i and payment status %i whole cents are due: %d', (status, paymentStatus, due) => {
  const invoice = create(InvoiceSchema, { ...period, status, paymentStatus, totalNanoUsd: 10_000_001n });
  expect(asSent(invoiceJson(invoice))).toMatchObject({ total_usd: 0.010000001, amount_due_usd: due });
});

test('quantities are in the units of their prices', () => {
  const quantities = [
    [PriceUnit.MILLION_INPUT_TOKENS, 0.0015],
    [PriceUnit.MILLION_CACHED_INPUT_TOKENS, 0.0015],
    [PriceUnit.MILLION_OUTPUT_TOKENS, 0.0015],
    [PriceUnit.IMAGE, 1_500],
    [PriceUnit.AUDIO_SECOND, 1.5],
    [PriceUnit.MILLION_CHARACTERS, 0.0015],
    [PriceUnit.REQUEST, 1_500],
  ] as const;
  const lineItems = quantities.map(([unit]) => create(InvoiceLineItemSchema, { line: { unit, quantity: 1_500n } }));
  const { line_items } = asSent(invoiceWithLinesJson(create(InvoiceSchema, { ...period, lineItems })));
  expect(line_items.map(({ quantity }: { quantity: number }) => quantity)).toEqual(quantities.map(([, one]) => one));
});
