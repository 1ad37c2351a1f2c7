import { isObject } from '#shared/is-object.ts';

/** The most of an upstream's error body that is read, in bytes. */
export const errorBytesMax = 64 * 1024;

type SaidError = { message: string; param: string | undefined; code: string | undefined };

/**
 * What an error body says, from `{error:{…}}`, `{error:"…"}`, a flat `{message}` or `{detail}`, or Google's list of one; HTML and the rest
 * say nothing.
 */
export function readErrorBody(body: string): SaidError {
  const nothing: SaidError = { message: '', param: undefined, code: undefined };
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    return nothing;
  }
  const answer: unknown = Array.isArray(parsed) ? parsed[0] : parsed;
  if (typeof answer !== 'object' || answer === null) return nothing;
  const outer = answer as { error?: unknown; message?: unknown; detail?: unknown };
  const error =
    typeof outer.error === 'object' && outer.error !== null
      ? (outer.error as Record<string, unknown>)
      : (outer as Record<string, unknown>);
  // Mistral puts FastAPI's list into its message.
  const complained = isObject(outer.message) ? outer.message.detail : outer.detail;
  const message = [outer.error, error.message, outer.message, outer.detail, complaints(complained)].find(
    (text) => typeof text === 'string' && text !== '',
  );
  return {
    message: ((message as string | undefined) ?? '').slice(0, 2000),
    // vLLM names a field by its place in the request.
    param: nameOrNone(error.param)?.replace(/^body\./, ''),
    code: nameOrNone(error.code),
  };
}

/** FastAPI's list of what it does not accept, as `messages.0.role: Field required`. */
function complaints(detail: unknown): string {
  if (!Array.isArray(detail)) return '';
  const texts = detail.map((complaint: { loc?: unknown; msg?: unknown } | null) => {
    const place = Array.isArray(complaint?.loc) ? complaint.loc.filter(isPlaceInBody).join('.') : '';
    const text = typeof complaint?.msg === 'string' ? complaint.msg : '';
    return place === '' ? text : `${place}: ${text}`;
  });
  return texts.filter((text) => text !== '').join('; ');
}

const isPlaceInBody = (part: unknown): boolean =>
  typeof part === 'number' || (typeof part === 'string' && part !== 'body');

/** What clients branch on, and usage events keep: a code, or the path of a field. Anything else could be of any length and content. */
const nameOrNone = (value: unknown): string | undefined =>
  typeof value === 'string' && /^[\w.\-[\]]{1,64}$/.test(value) ? value : undefined;
