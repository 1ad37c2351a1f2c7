import { InvoiceStatus } from '#gen/modelgateway/billing/v1/invoice_pb.ts';
import { inTurns } from '#shared/in-turns.ts';
import { upToWholeCent, usdText } from '#shared/money.ts';
import type { InvoiceLineRow, InvoiceRow } from '../db/entities.ts';
import { invoiceNumber } from '../db/messages.ts';
import { quantityPerUnit } from '../domain/priced-lines.ts';
import { describedUnit } from './unit-texts.ts';

const margin = 50;
const columnsX = { text: margin, quantity: 300, price: 385, amount: 470 } as const;
const numberWidth = 75;
const bottomY = 770;
/** This many take a few milliseconds to draw. */
const linesPerTurn = 20;

/** An invoice as an A4 document: header, line items, totals. Amounts are the exact decimals of the ledger. */
export async function invoicePdf(invoice: InvoiceRow, lines: readonly InvoiceLineRow[]): Promise<Buffer> {
  // Large, and seldom needed.
  const { default: PDFDocument } = await import('pdfkit');
  const number = invoiceNumber(invoice.number);
  const title = number === '' ? 'Draft invoice' : `Invoice ${number}`;
  const issuedAt = invoice.issuedAt ?? new Date(`${invoice.month}T00:00:00Z`);
  const document = new PDFDocument({
    size: 'A4',
    margin,
    info: { Title: title, CreationDate: issuedAt },
  });
  const pieces: Buffer[] = [];
  document.on('data', (piece: Buffer) => pieces.push(piece));
  const ended = new Promise<void>((resolve, reject) => {
    document.on('end', resolve);
    document.on('error', reject);
  });

  document.font('Helvetica-Bold').fontSize(20).text(title);
  const isVoided = invoice.status === InvoiceStatus.VOIDED;
  if (isVoided) document.fontSize(12).text('Voided: no payment is due.');
  document.font('Helvetica').fontSize(10).moveDown();
  for (const [name, value] of [
    ['Period', invoice.month.slice(0, 7)],
    ['Organization', invoice.tenantId],
    ['Issued', invoice.issuedAt?.toISOString().slice(0, 10) ?? 'not yet'],
    ['Due', isVoided ? '' : (invoice.dueDate ?? '')],
    ['Paid', invoice.paidAt?.toISOString().slice(0, 10) ?? ''],
  ] as const) {
    if (value !== '') document.text(`${name}: ${value}`);
  }
  document.moveDown(2);
  row(document, ['Usage', 'Quantity', 'USD per unit', 'USD'], 'Helvetica-Bold');
  for await (const some of inTurns(lines, linesPerTurn)) for (const line of some) lineRow(document, line);
  document.moveDown();
  row(document, ['Subtotal', '', '', usdText(invoice.subtotalNanoUsd)]);
  row(document, ['Paid from commitment and credit', '', '', usdText(-invoice.creditsNanoUsd)]);
  row(document, ['Total', '', '', usdText(invoice.totalNanoUsd)], 'Helvetica-Bold');
  if (invoice.status === InvoiceStatus.FINALIZED && invoice.paidAt === null) {
    row(document, ['Amount due, rounded up to a whole cent', '', '', usdText(upToWholeCent(invoice.totalNanoUsd))]);
  }
  document.end();
  await ended;
  return Buffer.concat(pieces);
}

function lineRow(document: PDFKit.PDFDocument, line: InvoiceLineRow): void {
  const perUnit = quantityPerUnit(line.unit);
  const isPerMillion = perUnit === 1_000_000n;
  row(document, [
    `${line.model}: ${describedUnit(line.unit)}`,
    // Tokens and characters, priced by the million, are shown one by one; audio, metered in milliseconds, is shown in seconds.
    isPerMillion ? line.quantity.toString() : String(Number(line.quantity) / Number(perUnit)),
    isPerMillion ? `${usdText(line.unitPriceNanoUsd)} per million` : usdText(line.unitPriceNanoUsd),
    usdText(line.amountNanoUsd),
  ]);
}

function row(
  document: PDFKit.PDFDocument,
  [text, quantity, price, amount]: readonly [string, string, string, string],
  font = 'Helvetica',
): void {
  document.font(font).fontSize(9);
  const height = document.heightOfString(text, { width: columnsX.quantity - columnsX.text - 10 });
  if (document.y + height > bottomY) document.addPage();
  const { y } = document;
  // A price with all nine decimals needs two lines.
  const cells = [
    [text, columnsX.text, columnsX.quantity - columnsX.text - 10, 'left'],
    [quantity, columnsX.quantity, numberWidth, 'right'],
    [price, columnsX.price, numberWidth, 'right'],
    [amount, columnsX.amount, numberWidth, 'right'],
  ] as const;
  let endY = y;
  for (const [cell, x, width, align] of cells) {
    document.text(cell, x, y, { width, align });
    endY = Math.max(endY, document.y);
  }
  document.y = endY + 4;
  document.x = margin;
}
