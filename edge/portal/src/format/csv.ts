/**
 * Makes a CSV file (RFC 4180) and hands it to the browser as a download. A cell that a spreadsheet would take for a
 * formula gets an apostrophe before it: names come from other people.
 */
export function downloadCsv(
  name: string,
  header: readonly string[],
  rows: readonly (readonly (string | number | null)[])[],
): void {
  const text = [header, ...rows].map((row) => row.map(cell).join(',')).join('\r\n');
  downloadFile(name, new Blob([`${text}\r\n`], { type: 'text/csv;charset=utf-8' }));
}

export function downloadFile(name: string, blob: Blob): void {
  const address = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
}

function cell(value: string | number | null): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
