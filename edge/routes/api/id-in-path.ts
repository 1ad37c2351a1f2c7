import { notFound } from '#shared/errors.ts';
import { isUuid } from '#shared/ids.ts';

/** The id of something from the path, as it is kept; what is no UUID names none. */
export function idInPath(text: string, what: string): string {
  if (!isUuid(text)) throw notFound(what);
  return text.toLowerCase();
}
