import type { PlainPageInfo } from '#shared/page.ts';
import { forTerminal } from '#shared/safe-text.ts';
import type { AdminCommand } from './command.ts';

/** Rows as an aligned table of the columns, by default of all fields; one object as lines of field and value. */
export function textOf(output: object | readonly object[], columns?: readonly string[]): string {
  if (!Array.isArray(output)) return aligned(linesOf(output));
  if (output.length === 0) return 'none\n';
  const names = columns ?? Object.keys(output[0] as object);
  const rows = output.map((row: object) => {
    const fields = new Map(linesOf(row) as [string, string][]);
    return names.map((name) => fields.get(name) ?? '');
  });
  return aligned([names.map((name) => name.toUpperCase()), ...rows]);
}

/** The fields of an object with their values, those of inner objects as `wallet.balance_usd` and `deployments.0.status`. */
const linesOf = (object: object, prefix = ''): string[][] =>
  Object.entries(object).flatMap(([name, value]) =>
    hasFields(value) ? linesOf(value, `${prefix}${name}.`) : [[prefix + name, cell(value)]],
  );

/** Whether a value is an object or a list of them; an amount is none (`usdJson`). */
const hasFields = (value: unknown): value is object =>
  typeof value === 'object' &&
  value !== null &&
  !JSON.isRawJSON(value) &&
  (!Array.isArray(value) || value.some((one) => typeof one === 'object'));

/** One line: breaks are common in mails, where a link may stand before them. */
const cell = (value: unknown): string =>
  forTerminal(
    (Array.isArray(value)
      ? value.join(', ')
      : JSON.isRawJSON(value)
        ? JSON.stringify(value)
        : String(value ?? '')
    ).replace(/\s+/g, ' '),
  );

function aligned(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => widthOf(row[column]!))));
  const lines = rows.map((row) =>
    row
      .map((text, column) => text + ' '.repeat(widths[column]! - widthOf(text)))
      .join('  ')
      .trimEnd(),
  );
  return `${lines.join('\n')}\n`;
}

const characters = new Intl.Segmenter('en');

/** Characters that terminals show two columns wide: East Asian ones (UAX #11) and emoji. */
const wide =
  /^(?:[[\p{sc=Han}\p{sc=Hang}\u3000-\u30ff\u3100-\u312f\uff01-\uff60\uffe0-\uffe6]--[\uffa0-\uffdc]]|\p{RGI_Emoji})/v;

/** How many columns of a terminal a text takes. */
const widthOf = (text: string): number =>
  /^[\x20-\x7e]*$/.test(text)
    ? text.length
    : Iterator.from(characters.segment(text)).reduce((sum, { segment }) => sum + (wide.test(segment) ? 2 : 1), 0);

/** Says that a list goes on elsewhere, lest its page be taken for the whole; for standard error, apart from what scripts read. */
export function pageText(page: PlainPageInfo | undefined): string {
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
