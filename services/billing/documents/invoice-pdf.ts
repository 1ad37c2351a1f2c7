import { InvoiceStatus } from '#gen/modelgateway/billing/v1/invoice_pb.ts';
import { inTurns } from '#shared/in-turns.ts';
import { upToWholeCent, usdText } from '#shared/money.ts';
import type { InvoiceLineRow, InvoiceRow } from '../db/entities.ts';
import { invoiceNumber } from '../db/messages.ts';
import { quantityPerUnit } from '../domain/priced-lines.ts';
import { describedLine } from './line-texts.ts';

const margin = 50;
/** Of a row's text, quantity, price and amount; the last holds ten digits and nine decimals, so that no amount is broken. */
const columns = [
  { x: margin, width: 200, align: 'left' },
  { x: 260, width: 75, align: 'right' },
  { x: 345, width: 85, align: 'right' },
  { x: 440, width: 105, align: 'right' },
] as const;
const bottomY = 770;
const footerY = 800;
/** Totals stand on one page. */
const totalsHeight = 80;
/** This many take two milliseconds to draw; two invoices of an organization may be drawn at a time. */
const linesPerTurn = 5;
const pagesPerTurn = 5;

/** The characters of the fonts that every reader has. */
const drawable = new Set(new TextDecoder('windows-1252').decode(Uint8Array.from({ length: 256 }, (_, code) => code)));

/** A model's name as far as it can be drawn, the rest as in an address. */
const drawn = (name: string): string =>
  Array.from(name, (character) => (drawable.has(character) ? character : encodeURIComponent(character))).join('');

/**
 * An invoice as an A4 document: header, line items, totals. Amounts are the exact decimals of the ledger. A name that is empty or cannot be
 * drawn is left out.
 */
export async function invoicePdf(
  invoice: InvoiceRow,
  lines: readonly InvoiceLineRow[],
  organizationName: string,
): Promise<Buffer> {
  // Large, and seldom needed.
  const { default: PDFDocument } = await import('pdfkit');
  const number = invoiceNumber(invoice.number);
  const title = number === '' ? 'Draft invoice' : `Invoice ${number}`;
  const name = organizationName.normalize();
  const isNamed = name !== '' && [...name].every((character) => drawable.has(character));
  const issuedAt = invoice.issuedAt ?? new Date(`${invoice.month}T00:00:00Z`);
  const document = new PDFDocument({
    size: 'A4',
    margin,
    // Their number is known at the end.
    bufferPages: true,
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
  for (const [field, value] of [
    ['Period', invoice.month.slice(0, 7)],
    ['Organization', isNamed ? `${name}, ${invoice.tenantId}` : invoice.tenantId],
    ['Issued', invoice.issuedAt?.toISOString().slice(0, 10) ?? 'not yet'],
    ['Due', isVoided ? '' : (invoice.dueDate ?? '')],
    ['Paid', invoice.paidAt?.toISOString().slice(0, 10) ?? ''],
  ] as const) {
    if (value !== '') document.text(`${field}: ${value}`);
  }
  document.moveDown(2);
  columnHeads(document);
  for await (const some of inTurns(lines, linesPerTurn)) for (const line of some) lineRow(document, line);
  document.moveDown();
  if (document.y + totalsHeight > bottomY) startPage(document);
  row(document, ['Subtotal', '', '', usdText(invoice.subtotalNanoUsd)]);
  row(document, ['Paid from commitment and credit', '', '', usdText(-invoice.creditsNanoUsd)]);
  row(document, ['Total', '', '', usdText(invoice.totalNanoUsd)], 'Helvetica-Bold');
  if (invoice.status === InvoiceStatus.FINALIZED && invoice.paidAt === null) {
    row(document, ['Amount due, rounded up to a whole cent', '', '', usdText(upToWholeCent(invoice.totalNanoUsd))]);
  }
  await numberPages(document, title);
  document.end();
  await ended;
  return Buffer.concat(pieces);
}

function startPage(document: PDFKit.PDFDocument): void {
  document.addPage();
  columnHeads(document);
}

const columnHeads = (document: PDFKit.PDFDocument): void =>
  row(document, ['Usage', 'Quantity', 'USD per unit', 'USD'], 'Helvetica-Bold');

async function numberPages(document: PDFKit.PDFDocument, title: string): Promise<void> {
  const { count } = document.bufferedPageRange();
  for await (const pages of inTurns([...Array(count).keys()], pagesPerTurn)) {
    for (const page of pages) {
      document.switchToPage(page);
      // Otherwise text below the margin starts another page.
      document.page.margins.bottom = 0;
      document
        .font('Helvetica')
        .fontSize(9)
        .text(`${title}, page ${page + 1} of ${count}`, margin, footerY);
    }
  }
}

function lineRow(document: PDFKit.PDFDocument, line: InvoiceLineRow): void {
  const perUnit = quantityPerUnit(line.unit);
  const isPerMillion = perUnit === 1_000_000n;
  row(document, [
    describedLine({ ...line, model: drawn(line.model) }),
    // Tokens and characters, priced by the million, are shown one by one; audio, metered in milliseconds, is shown in seconds.
    isPerMillion ? line.quantity.toString() : String(Number(line.quantity) / Number(perUnit)),
    isPerMillion ? `${usdText(line.unitPriceNanoUsd)} per million` : usdText(line.unitPriceNanoUsd),
    usdText(line.amountNanoUsd),
  ]);
}

function row(document: PDFKit.PDFDocument, cells: readonly [string, string, string, string], font = 'Helvetica'): void {
  document.font(font).fontSize(9);
  if (document.y + document.heightOfString(cells[0], { width: columns[0].width }) > bottomY) {
    startPage(document);
    document.font(font);
  }
  const { y } = document;
  // A price with all nine decimals needs two lines.
  let endY = y;
  for (const [index, { x, width, align }] of columns.entries()) {
    document.text(cells[index]!, x, y, { width, align });
    endY = Math.max(endY, document.y);
  }
  document.y = endY + 4;
  document.x = margin;
}
