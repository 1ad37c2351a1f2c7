import { csvTextCell } from '#shared/csv.ts';
import { downloadFile } from './download.ts';
import { plainNumber } from './number.ts';

export type CsvCell = string | number | boolean | null;

/** A CSV file (RFC 4180). */
export const csvText = (header: readonly string[], rows: readonly (readonly CsvCell[])[]): string =>
  [header, ...rows].map((row) => `${row.map(cell).join(',')}\r\n`).join('');

export const downloadCsv = (name: string, header: readonly string[], rows: readonly (readonly CsvCell[])[]): void =>
  downloadFile(name, new Blob([csvText(header, rows)], { type: 'text/csv;charset=utf-8' }));

function cell(value: CsvCell): string {
  if (value === null) return '';
  if (typeof value === 'boolean') return String(value);
  if (typeof value === 'number') return plainNumber(value);
  return csvTextCell(value);
}
