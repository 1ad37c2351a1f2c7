import { inflateSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { InvoiceStatus } from '#gen/modelgateway/billing/v1/invoice_pb.ts';
import { PriceUnit } from '#gen/modelgateway/billing/v1/price_usage_pb.ts';
import { uuidv7 } from '#shared/ids.ts';
import { invoicePdf } from './invoice-pdf.ts';

/** The texts of a document in order: its pages are compressed, and each text is in pieces of hexadecimal digits. */
const textsOf = (pdf: Buffer): string[] =>
  [...pdf.toString('latin1').matchAll(/stream\n([\s\S]*?)\nendstream/g)]
    .map(([, page]) => inflateSync(Buffer.from(page!, 'latin1')).toString('latin1'))
    .flatMap((page) => [...page.matchAll(/\[(.*?)\] TJ/g)])
    .map(([, pieces]) => pieces!.replace(/<([0-9a-f]*)>|[^<]/g, '$1'))
    .map((hex) => Buffer.from(hex, 'hex').toString('latin1'));

const month = '2026-11-01';
const tenantId = uuidv7();
const invoice = {
  tenantId,
  id: uuidv7(),
  month,
  status: InvoiceStatus.FINALIZED,
  number: 7n,
  issuedAt: new Date('2026-12-01T01:00:00Z'),
  dueDate: '2026-12-31',
  paidAt: null,
  subtotalNanoUsd: 1_367_801_500n,
  creditsNanoUsd: 0n,
  totalNanoUsd: 1_367_801_500n,
};

test('quantities are in the units named in their line, so that multiplied by their prices they give the amounts', async () => {
  const lines = (
    [
      [PriceUnit.MILLION_INPUT_TOKENS, 1_234_567n, 1_000_000_000n, 1_234_567_000n],
      [PriceUnit.IMAGE, 3n, 40_000_000n, 120_000_000n],
      // Metered in milliseconds.
      [PriceUnit.AUDIO_SECOND, 12_345n, 100_000n, 1_234_500n],
      [PriceUnit.AUDIO_SECOND, 60_000n, 200_000n, 12_000_000n],
    ] as const
  ).map(([unit, quantity, unitPriceNanoUsd, amountNanoUsd]) => {
    return { tenantId, month, usageMonth: month, model: 'a', unit, quantity, unitPriceNanoUsd, amountNanoUsd };
  });
  const texts = textsOf(await invoicePdf(invoice, lines, '')).join(' | ');
  for (const line of [
    'a: input tokens | 1234567 | 1 per million | 1.234567',
    'a: images | 3 | 0.04 | 0.12',
    'a: audio, in seconds | 12.345 | 0.0001 | 0.0012345',
    'a: audio, in seconds | 60 | 0.0002 | 0.012',
  ]) {
    expect(texts).toContain(line);
  }
});

test('an invoice names its organization, unless its font lacks a letter of the name, and always has its id', async () => {
  const named = async (name: string) => textsOf(await invoicePdf(invoice, [], name));
  expect(await named('Müller & Söhne – ‘Æon’ €')).toContain(
    `Organization: M\xfcller & S\xf6hne \x96 \x91\xc6on\x92 \x80, ${tenantId}`,
  );
  for (const name of ['Łódź Sp. z o.o.', '株式会社', ''])
    expect(await named(name)).toContain(`Organization: ${tenantId}`);
});

test('a model whose name the font cannot draw is named as in an address, not by other letters', async () => {
  const line = { tenantId, month, usageMonth: month, unit: PriceUnit.IMAGE, unitPriceNanoUsd: 40n, quantity: 3n };
  const lines = ['模-7b', '💥', 'é'].map((model) => ({ ...line, amountNanoUsd: 120n, model }));
  const texts = textsOf(await invoicePdf(invoice, lines, ''));
  for (const text of ['%E6%A8%A1-7b: images', '%F0%9F%92%A5: images', '\xe9: images']) expect(texts).toContain(text);
});

test('an invoice of several pages breaks no amount, keeps its totals together, and says on each page which one it is and what its columns are', async () => {
  const line = { tenantId, month, usageMonth: month, unit: PriceUnit.IMAGE, unitPriceNanoUsd: 40n, quantity: 3n };
  const lines = (count: number) =>
    Array.from({ length: count }, (_, index) => ({
      ...line,
      amountNanoUsd: 8_888_888_888_123_456_789n,
      model: `m-${index}`,
    }));
  for (let count = 80; count < 96; count += 1) {
    const texts = textsOf(await invoicePdf(invoice, lines(count), ''));
    const heads = texts.filter((text) => text === 'USD per unit').length;
    const footers = texts.filter((text) => text.startsWith('Invoice INV-000007, page '));
    expect(footers).toEqual(
      Array.from({ length: heads }, (_, index) => `Invoice INV-000007, page ${index + 1} of ${heads}`),
    );
    expect(heads).toBeGreaterThan(1);
    expect(texts.filter((text) => text === '8888888888.123456789')).toHaveLength(count);
    const onLastPage = texts.slice(texts.lastIndexOf('USD per unit'));
    expect(onLastPage).toEqual(expect.arrayContaining(['Subtotal', 'Amount due, rounded up to a whole cent']));
  }
});

test('a long invoice is drawn in many turns of the event loop, so that other calls continue meanwhile', async () => {
  const line = {
    tenantId,
    month,
    usageMonth: month,
    unit: PriceUnit.IMAGE,
    unitPriceNanoUsd: 40n,
    quantity: 3n,
    amountNanoUsd: 120n,
  };
  const lines = Array.from({ length: 1_000 }, (_, index) => ({ ...line, model: `model-${index}` }));
  await invoicePdf(invoice, [], '');
  let turns = 0;
  let isDrawn = false;
  const watch = () => {
    turns += 1;
    if (!isDrawn) setImmediate(watch);
  };
  setImmediate(watch);
  const pdf = await invoicePdf(invoice, lines, '');
  isDrawn = true;
  // Five lines in each, and five pages of their numbers.
  expect(turns).toBeGreaterThan(1_000 / 5);
  expect(textsOf(pdf)).toContain('model-999: images');
});
