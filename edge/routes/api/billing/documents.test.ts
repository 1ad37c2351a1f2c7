import { afterEach, beforeEach, expect, test } from 'vitest';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { as, person } from '../../../../services/billing/fixtures/test-billing.ts';
import { type BillingEdge, startBillingEdge } from '../../../fixtures/billing-edge.ts';

let edge: BillingEdge;
// A new one for each test, so that none depends on another.
beforeEach(async () => {
  edge = await startBillingEdge();
});
afterEach(() => edge[Symbol.asyncDispose]());

test('a charge appears in the draft invoice with exact line items, its transactions and its PDF', async () => {
  await edge.purchase(12.000000345);
  const event = await edge.charge();
  const { data } = (await edge.call('GET', '/billing/documents/invoices?status=draft', 'owner')).json as {
    data: { id: string }[];
  };
  const path = `/billing/documents/invoices/${data[0]!.id}`;
  const invoice = await edge.call('GET', path, 'owner');
  expect(invoice.json).toMatchObject({
    number: null,
    status: 'draft',
    payment_status: 'pending',
    subtotal_usd: 1.23457,
    credits_usd: 1.23457,
    total_usd: 0,
    amount_due_usd: 0,
    line_items: [
      { unit: 'million_input_tokens', quantity: 1.234567, unit_price_usd: 1, amount_usd: 1.234567 },
      { unit: 'million_output_tokens', quantity: 0.000001, unit_price_usd: 3, amount_usd: 0.000003 },
    ],
  });
  const { data: transactions } = (await edge.call('GET', `${path}/transactions`, 'owner')).json as { data: object[] };
  expect(transactions).toMatchObject([
    {
      type: 'usage',
      amount_usd: -1.23457,
      description: event.model,
      usage_event_id: event.id,
      invoice_id: data[0]!.id,
    },
  ]);
  const pdf = await edge.call('GET', `${path}?format=pdf`, 'owner');
  expect(pdf.headers['content-type']).toBe('application/pdf');
  expect(pdf.raw.subarray(0, 5).toString()).toBe('%PDF-');
  for (const id of [uuidv7(), 'x', '%20']) {
    expect((await edge.call('GET', `/billing/documents/invoices/${id}`, 'owner')).status).toBe(404);
  }
});

test('transactions are filtered by type, and an unknown type or an invalid range of days is refused', async () => {
  await edge.purchase(12.000000345);
  await edge.charge();
  const grants = await edge.call('GET', '/billing/documents/transactions?type=purchase', 'owner');
  expect(grants.json).toMatchObject({
    data: [{ type: 'purchase', amount_usd: 12.000000345 }],
    pagination: { total: 1 },
  });
  for (const query of [
    'start_date=2026-02-31',
    'start_date=x',
    'type=theft',
    'start_date=2026-02-02&end_date=2026-02-01',
  ]) {
    expect((await edge.call('GET', `/billing/documents/transactions?${query}`, 'owner')).status, query).toBe(400);
  }
});

test('transactions are exported whole, oldest first, with the fields and the filters of their list', async () => {
  await using other = await startBillingEdge();
  const purchases = Array.from({ length: 3 }, (_, index) => index + 0.000000001);
  for (const usd of purchases) await other.purchase(usd + 1);
  await other.charge();
  const path = '/billing/documents/transactions';
  const exported = async (query: string) => {
    const { status, text, headers } = await other.call('GET', `${path}/export${query}`, 'owner');
    expect(status, text).toBe(200);
    return { lines: text.trimEnd().split('\r\n'), headers };
  };
  const { data } = (await other.call('GET', path, 'owner')).json as { data: Record<string, unknown>[] };
  const { lines, headers } = await exported('');
  expect(lines[0]).toBe(Object.keys(data[0]!).join(','));
  expect(lines.slice(1)).toEqual(data.toReversed().map((row) => Object.values(row).join(',')));
  expect(headers).toMatchObject({
    'content-type': 'text/csv; charset=utf-8; header=present',
    'content-disposition': 'attachment; filename="transactions.csv"',
  });
  const narrowed = await exported('?type=usage&start_date=2020-01-01&end_date=2999-01-01');
  expect(narrowed.lines).toEqual([lines[0], lines.at(-1)]);
  expect(narrowed.headers['content-disposition']).toContain('transactions_from_2020-01-01_to_2999-01-01.csv');
  expect((await exported('?end_date=2020-01-01')).lines).toEqual([lines[0]]);
  expect((await other.call('GET', `${path}/export?type=theft`, 'owner')).status).toBe(400);
  expect((await other.call('GET', `${path}/export`, 'member')).status).toBe(403);
});

test('a call of which the charge is asked by something that is no id is refused by the name of its parameter', async () => {
  for (const id of ['mangled', '%20']) {
    const { status, json } = await edge.call('GET', `/billing/documents/transactions?usage_event_id=${id}`, 'owner');
    expect([status, json]).toMatchObject([
      400,
      {
        error: {
          message: 'Invalid value for `usage_event_id`: it must be a valid UUID.',
          param: 'usage_event_id',
          code: 'invalid_value',
        },
      },
    ]);
  }
});

test('invoices are filtered by the months that contain the requested days, for operators too', async () => {
  type Listed = { data: { id: string; period_start: string; period_end: string }[] };
  await edge.charge();
  const [invoice] = ((await edge.call('GET', '/billing/documents/invoices', 'owner')).json as Listed).data;
  const dayOf = (time: number) => new Date(time).toISOString().slice(0, 10);
  const [start, end] = [Date.parse(invoice!.period_start), Date.parse(invoice!.period_end)];
  const [before, first, last, behind] = [start - 1, start, end - 1, end].map(dayOf);
  for (const [query, isListed] of [
    [`start_date=${first}&end_date=${last}`, true],
    [`start_date=${last}`, true],
    [`end_date=${first}`, true],
    [`start_date=${last}&end_date=${last}`, true],
    [`start_date=${behind}`, false],
    [`end_date=${before}`, false],
  ] as const) {
    for (const [path, who] of [
      ['/billing/documents', 'owner'],
      [edge.organization, 'operator'],
    ] as const) {
      const { data } = (await edge.call('GET', `${path}/invoices?${query}`, who)).json as Listed;
      expect([query, data.map(({ id }) => id)]).toEqual([query, isListed ? [invoice!.id] : []]);
    }
  }
});

test('operators read the invoices and transactions of an organization, and export these, as it does itself, and nobody else can', async () => {
  await edge.charge();
  for (const [name, query] of [
    ['invoices', '?status=draft'],
    ['transactions', '?type=usage&limit=1'],
  ] as const) {
    const own = await edge.call('GET', `/billing/documents/${name}${query}`, 'owner');
    expect((own.json as { data: object[] }).data.length).toBeGreaterThan(0);
    const seen = await edge.call('GET', `${edge.organization}/${name}${query}`, 'operator');
    expect([seen.status, seen.text]).toEqual([200, own.text]);
    expect((await edge.call('GET', `${edge.organization}/${name}`, 'owner')).status).toBe(403);
    expect((await edge.call('GET', `/admin/organizations/${uuidv7()}/${name}`, 'operator')).status).toBe(404);
  }
  const exported = '/transactions/export?type=usage&start_date=2020-01-01';
  const ownFile = await edge.call('GET', `/billing/documents${exported}`, 'owner');
  const file = await edge.call('GET', `${edge.organization}${exported}`, 'operator');
  expect([file.status, file.text]).toEqual([200, ownFile.text]);
  expect(file.headers['content-disposition']).toBe('attachment; filename="transactions_from_2020-01-01.csv"');
  expect((await edge.call('GET', `${edge.organization}${exported}`, 'owner')).status).toBe(403);
  expect((await edge.call('GET', `/admin/organizations/${uuidv7()}${exported}`, 'operator')).status).toBe(404);
  const { billing } = edge.billing;
  const named = { tenantId: edge.tenantId };
  const drafts = await edge.call('GET', '/billing/documents/invoices?status=draft', 'owner');
  const invoiceId = (drafts.json as { data: { id: string }[] }).data[0]!.id;
  // The owner of another organization.
  const other = as(person());
  for (const answer of ['', '?format=pdf', '/transactions']) {
    const own = await edge.call('GET', `/billing/documents/invoices/${invoiceId}${answer}`, 'owner');
    const seen = await edge.call('GET', `${edge.organization}/invoices/${invoiceId}${answer}`, 'operator');
    expect([seen.status, seen.headers['content-type']]).toEqual([200, own.headers['content-type']]);
    // Each PDF says when it was made.
    if (answer !== '?format=pdf') expect(seen.text).toBe(own.text);
    else expect(seen.headers['content-disposition']).toBe(own.headers['content-disposition']);
    for (const [tenant, id] of [
      [uuidv7(), invoiceId],
      [edge.tenantId, uuidv7()],
    ]) {
      const path = `/admin/organizations/${tenant}/invoices/${id}${answer}`;
      expect((await edge.call('GET', path, 'operator')).status, path).toBe(404);
      expect((await edge.call('GET', path, 'owner')).status, path).toBe(403);
    }
  }
  for (const call of [
    () => billing.listInvoices(named, other),
    () => billing.getInvoice({ ...named, invoiceId }, other),
    () => billing.renderInvoicePdf({ ...named, invoiceId }, other),
    () => billing.listInvoiceTransactions({ ...named, invoiceId }, other),
    () => billing.listTransactions(named, other),
  ]) {
    await expect(call()).rejects.toMatchObject({ reason: ErrorReason.INSUFFICIENT_ROLE });
  }
});
