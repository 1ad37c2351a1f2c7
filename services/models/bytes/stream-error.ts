/** An error which an upstream wrote into its stream, or ours about what it wrote. */
export type UpstreamStreamError = { message: string; type: string | null; code: string | number | null };

/** An error in our words. */
export const ownError = (message: string): UpstreamStreamError => ({ message, type: null, code: null });

/** Reads an error in any of the shapes that upstreams write: an object, one within `error`, or mere text. */
export const readErrorText = (text: string): UpstreamStreamError => readError(parseOrText(text));

function parseOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The members of an error in any of the shapes that upstreams write. */
function readError(json: unknown): UpstreamStreamError {
  const outer = typeof json === 'object' && json !== null && 'error' in json ? json.error : json;
  if (typeof outer !== 'object' || outer === null) return { message: String(outer), type: null, code: null };
  const { message, type, code } = outer as Record<string, unknown>;
  return {
    message: typeof message === 'string' ? message : JSON.stringify(outer),
    type: typeof type === 'string' ? type : null,
    code: typeof code === 'string' || typeof code === 'number' ? code : null,
  };
}
