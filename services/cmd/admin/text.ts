import type { PageInfo } from '#gen/modelgateway/common/v1/pagination_pb.ts';
import type { AdminCommand } from './command.ts';

/** Rows as an aligned table; one object as lines of field and value. */
export function textOf(output: object | readonly object[]): string {
  if (!Array.isArray(output)) {
    return aligned(Object.entries(output).map(([name, value]) => [name, cell(value)]));
  }
  if (output.length === 0) return 'none\n';
  const names = Object.keys(output[0] as object);
  const rows = output.map((row: Record<string, unknown>) => names.map((name) => cell(row[name])));
  return aligned([names.map((name) => name.toUpperCase()), ...rows]);
}

/** Terminals obey control characters, and names come from people. Line breaks are common in mails, where a link may stand before them. */
const cell = (value: unknown): string =>
  String(value ?? '')
    .replace(/\s+/g, ' ')
    .replace(/[\p{Cc}\p{Cf}]/gu, '?');

function aligned(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const lines = rows.map((row) =>
    row
      .map((text, column) => text.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  );
  return `${lines.join('\n')}\n`;
}

/** Says that a list goes on elsewhere, lest its page be taken for the whole; for standard error, apart from what scripts read. */
export function pageText(page: PageInfo | undefined): string {
  if (page === undefined || !(page.hasNext || page.hasPrev)) return '';
  const next = page.hasNext ? `; --page ${page.page + 1} shows the next` : '';
  return `Page ${page.page} of ${page.totalPages}, ${page.total} in all${next}.\n`;
}

/** The first lines of any help. */
export const usageText = 'Usage: npm run admin -- <command> [--json]\n\n';

export function helpText(commands: readonly AdminCommand[]): string {
  const lines = commands.map(({ name, usage, summary }) => `${`  ${name} ${usage}`.trimEnd()}\n      ${summary}`);
  return `${usageText}${lines.join('\n')}\n`;
}
