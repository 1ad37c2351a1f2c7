import { invalidRequest } from '#shared/errors.ts';
import type { EdgeApp } from '../routes/routes.ts';

/** The largest JSON body of an inference call, in bytes: prompts may carry images as base64. */
export const inferenceBytesMax = 32 * 1024 * 1024;

/** Keeps JSON bodies as bytes: InferenceService scans them, and what the gateway does not read reaches the upstream untouched. */
export function rawJsonBodies(app: EdgeApp): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer', bodyLimit: inferenceBytesMax },
    (_request, body, done) => done(null, body),
  );
}

/** Takes JSON bodies alone, and an empty one as none, since clients send Content-Type with every DELETE. */
export function managementBodies(app: EdgeApp): void {
  const parse = app.getDefaultJsonParser('error', 'error');
  app.addHook('onRequest', (request, _reply, done) => {
    if (request.url.includes('%00')) done(nul());
    else done();
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    if (body === '') {
      done(null, undefined);
      return;
    }
    parse(request, body as string, (error, value) => {
      if (error !== null) {
        done(invalidRequest(undefined, 'The request body is not valid JSON.'), undefined);
      } else if ((body as string).includes('\\u0000') && holdsNul(value)) {
        done(nul(fieldWithNul(value)), undefined);
      } else {
        done(null, value);
      }
    });
  });
}

/** Postgres keeps no NUL in a text, and nobody means one. */
const nul = (field?: string) => invalidRequest(field, 'Texts must not contain the character NUL.');

/** The member of a body that holds a NUL; undefined when it stands in a name, or the body is no object. */
function fieldWithNul(body: unknown): string | undefined {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return undefined;
  return Object.entries(body).find(([name, value]) => !name.includes('\0') && holdsNul(value))?.[0];
}

/** With a list of its own, since a body may be nested deeper than the stack. */
function holdsNul(body: unknown): boolean {
  const pending: unknown[] = [body];
  while (pending.length > 0) {
    const value = pending.pop();
    if (typeof value === 'string' && value.includes('\0')) return true;
    if (typeof value !== 'object' || value === null) continue;
    // One by one: a spread of a million arguments would not fit either.
    for (const [key, inner] of Object.entries(value)) pending.push(key, inner);
  }
  return false;
}
