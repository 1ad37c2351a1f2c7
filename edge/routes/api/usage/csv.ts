/** One line of CSV (RFC 4180). Money comes as JSON.rawJSON and keeps its exact decimals. */
export const csvLine = (cells: readonly unknown[]): string => `${cells.map(csvCell).join(',')}\r\n`;

function csvCell(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value !== 'string') return JSON.stringify(value);
  // A spreadsheet would run a cell that begins like a formula (OWASP, CSV injection), and some begin a new cell after a semicolon.
  const inert = value.replace(/(^|;)(?=[=+\-@＝＋－＠\t\r])/g, "$1'");
  return /[",\r\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
}
