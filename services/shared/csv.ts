/**
 * A text as one cell of CSV (RFC 4180). What a spreadsheet would take for a formula (OWASP, CSV injection) gets an apostrophe before it,
 * also after a semicolon, where some begin a cell: names come from other people.
 */
export function csvTextCell(text: string): string {
  const inert = text.replace(/(^|;)(?=[=+\-@＝＋－＠\t\r])/g, "$1'");
  return /[",\r\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
}
