import { notFound } from '#shared/errors.ts';
import { isUuid } from '#shared/ids.ts';

/** An organization's id from the path; what is no UUID names none. */
export function organizationId(text: string): string {
  if (!isUuid(text)) throw notFound('organization');
  return text;
}
