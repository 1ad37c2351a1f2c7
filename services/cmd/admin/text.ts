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

/** The first lines of any help. */
export const usageText = 'Usage: npm run admin -- <command> [--json]\n\n';

export function helpText(commands: readonly AdminCommand[]): string {
  const lines = commands.map(({ name, usage, summary }) => `${`  ${name} ${usage}`.trimEnd()}\n      ${summary}`);
  return `${usageText}${lines.join('\n')}\n`;
}
