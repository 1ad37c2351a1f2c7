import { csvTextCell } from '#shared/csv.ts';
import { plainNumber } from './number.ts';

export type CsvCell = string | number | boolean | null;

/** A CSV file (RFC 4180). */
export const csvText = (header: readonly string[], rows: readonly (readonly CsvCell[])[]): string =>
  [header, ...rows].map((row) => `${row.map(cell).join(',')}\r\n`).join('');

export const downloadCsv = (name: string, header: readonly string[], rows: readonly (readonly CsvCell[])[]): void =>
  downloadFile(name, new Blob([csvText(header, rows)], { type: 'text/csv;charset=utf-8' }));

/** Saves a file. CSV gets a mark that it is UTF-8, without which Excel misreads every letter beyond ASCII. */
export function downloadFile(name: string, blob: Blob): void {
  const marked = blob.type.startsWith('text/csv') ? new Blob(['\ufeff', blob], { type: blob.type }) : blob;
  const address = URL.createObjectURL(marked);
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
}

function cell(value: CsvCell): string {
  if (value === null) return '';
  if (typeof value === 'boolean') return String(value);
  if (typeof value === 'number') return plainNumber(value);
  return csvTextCell(value);
}
