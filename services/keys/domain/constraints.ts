import { parseRange } from '#shared/cidr.ts';
import { invalidRequest } from '#shared/errors.ts';

/** How many bad entries an error names. */
const namedEntriesMax = 20;

/** Checks an ip_allowlist; the error names each entry that is neither an address nor a range in CIDR notation. */
export function checkIpAllowlist(entries: readonly string[]): string[] {
  const bad = entries.filter((entry) => parseRange(entry) === null);
  if (bad.length > 0) {
    const named = bad
      .slice(0, namedEntriesMax)
      .map((entry) => `\`${entry.slice(0, 64).replace(/[^\x20-\x7e]/g, '?')}\``);
    const rest = bad.length > namedEntriesMax ? ` and ${bad.length - namedEntriesMax} more` : '';
    throw invalidRequest(
      'ip_allowlist',
      `Invalid value for \`ip_allowlist\`: ${named.join(', ')}${rest}. Expected IP addresses, or CIDR ranges without host bits such as 10.0.0.0/8.`,
      'invalid_value',
    );
  }
  return [...new Set(entries)];
}

/** What would make a name read as another in a list or a log: control characters, line breaks, and turns of the writing direction. */
const misleading = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u;

/**
 * Checks a name, and takes the blanks around it away as an organization's name has them; its length counts in characters as Postgres
 * and people count them, not in UTF-16 units.
 */
export function checkName(text: string): string {
  const name = text.trim();
  const length = [...name].length;
  if (length < 2 || length > 255) {
    throw invalidRequest(
      'name',
      'Invalid value for `name`: expected 2 to 255 characters, not counting blanks around them.',
      'invalid_value',
    );
  }
  // A lone surrogate is no character, and cannot be stored.
  if (misleading.test(name) || !name.isWellFormed()) {
    throw invalidRequest(
      'name',
      'Invalid value for `name`: it holds a line break or another character that cannot be shown.',
      'invalid_value',
    );
  }
  return name;
}
