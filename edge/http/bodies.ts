import { invalidRequest } from '#shared/errors.ts';
import type { EdgeApp } from '../routes/routes.ts';

/** The largest JSON body of an inference call, in bytes: prompts may carry images as base64. */
const inferenceBytesMax = 32 * 1024 * 1024;

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
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    if (body === '') {
      done(null, undefined);
      return;
    }
    parse(request, body as string, (error, value) => {
      if (error === null) done(null, value);
      else done(invalidRequest(undefined, 'The request body is not valid JSON.'), undefined);
    });
  });
}
