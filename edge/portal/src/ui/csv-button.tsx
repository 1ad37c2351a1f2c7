import { type CsvCell, downloadCsv } from '../format/csv.ts';
import { Button } from './button.tsx';

type CsvButtonProps<Row, Column extends keyof Row & string> = {
  label?: string;
  /** The name of the file. */
  file: string;
  /** The fields of each row that are written, in this order; their names are the header. */
  columns: readonly Column[];
  rows: readonly (Row & Readonly<Record<Column, CsvCell>>)[];
  disabled?: boolean;
};

/** Downloads the rows that are shown. */
export function CsvButton<Row, Column extends keyof Row & string>({
  label = 'CSV of this page',
  file,
  columns,
  rows,
  disabled = false,
}: CsvButtonProps<Row, Column>) {
  const download = () =>
    downloadCsv(
      file,
      columns,
      rows.map((row) => columns.map((column) => row[column])),
    );
  return (
    <Button size="small" icon="download" disabled={disabled || rows.length === 0} onClick={download}>
      {label}
    </Button>
  );
}
