import { notFound } from '#shared/errors.ts';
import { isUuid } from '#shared/ids.ts';

/** An id from the path, in the spelling in which it is stored; anything but a UUID identifies nothing. */
export function idInPath(text: string, what: string): string {
  if (!isUuid(text)) throw notFound(what);
  return text.toLowerCase();
}
