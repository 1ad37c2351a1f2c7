import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { type TProperties, Type } from 'typebox';
import { ErrorReason, type GatewayError, gatewayError, invalidRequest, invalidValue } from '#shared/errors.ts';
import { countedBytesMin } from '#shared/held-bytes.ts';
import { isObject } from '#shared/is-object.ts';
import { isStorableText } from '#shared/safe-text.ts';
import type { EdgeApp } from '../app.ts';
import { duplicateMember } from './duplicate-member.ts';
import { inexactAmount } from './inexact-amount.ts';
import { nullable } from './nullable.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The JSON body of a management request as it was sent; empty for all others. */
    bodyText: string;
  }
  interface FastifySchema {
    /** The schema of a body that is only described; the code that takes its bytes checks it. */
    uncheckedBody?: unknown;
  }
}

/** The largest JSON body of an inference call, in bytes: prompts may carry images as base64. */
export const inferenceBytesMax = 32 * 1024 * 1024;

/** The largest body of a request that needs no credential, such as a login, in bytes: too small to be counted while it arrives. */
const publicBytesMax = countedBytesMin - 1;

/**
 * Refuses compressed bodies before they are read, and says which coding is accepted (RFC 9110 section 15.5.16). A `preParsing` hook would
 * make Fastify prepare each request for a replaced stream.
 */
export function refuseEncodedBodies(app: EdgeApp): void {
  app.addHook('onRequest', (request, reply, done) => {
    const coding = request.headers['content-encoding'];
    if (coding === undefined || /^(identity)?$/i.test(coding)) {
      done();
      return;
    }
    reply.header('accept-encoding', 'identity');
    done(
      gatewayError(
        ErrorReason.UNSUPPORTED_CONTENT_TYPE,
        'Compressed request bodies are not supported. Send the body without a Content-Encoding.',
      ),
    );
  });
}

/** Whether a request has a body to wait for: Fastify reads one for all methods but GET and HEAD. */
export const hasBody = ({ method, headers }: IncomingMessage): boolean =>
  method !== 'GET' &&
  method !== 'HEAD' &&
  (headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0');

/** How many pieces of a body are kept apart: in memory, one of a single byte takes some two hundred, and a client may send millions. */
const piecesMax = 1_024;

/** Reads a body to its end, as bytes. Fastify's own way of doing so keeps all pieces apart. */
function readBody(
  body: IncomingMessage,
  bytesMax: number,
  done: (error: GatewayError | null, bytes?: Buffer) => void,
): void {
  if (Number(body.headers['content-length'] ?? 0) > bytesMax) {
    done(bodyTooLarge(bytesMax));
    return;
  }
  const joined: Buffer[] = [];
  let pieces: Buffer[] = [];
  let length = 0;
  const end = (error: GatewayError | null, bytes?: Buffer): void => {
    body.off('data', onData).off('end', onEnd).off('error', onError);
    done(error, bytes);
  };
  const onData = (piece: Buffer): void => {
    length += piece.length;
    if (length > bytesMax) {
      end(bodyTooLarge(bytesMax));
      return;
    }
    pieces.push(piece);
    if (pieces.length < piecesMax) return;
    joined.push(Buffer.concat(pieces));
    pieces = [];
  };
  const onEnd = (): void => end(null, Buffer.concat([...joined, ...pieces], length));
  const onError = (): void => end(invalidRequest(undefined, 'The request ended before its body was complete.'));
  body.on('data', onData).on('end', onEnd).on('error', onError);
}

const mebibyte = 1024 * 1024;

const bodyTooLarge = (bytesMax: number): GatewayError => {
  const most = bytesMax % mebibyte === 0 ? `${bytesMax / mebibyte} MiB` : `${bytesMax} bytes`;
  const text = `The request body is too large: this endpoint takes at most ${most}.`;
  return gatewayError(ErrorReason.REQUEST_TOO_LARGE, text);
};

/**
 * Keeps JSON bodies of at most `bytesMax` as bytes: InferenceService scans them, and what it does not read reaches the upstream untouched.
 */
export function rawJsonBodies(app: EdgeApp, bytesMax: number): void {
  app.addHook('onRoute', (route) => {
    route.bodyLimit = bytesMax;
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', (_request, body: IncomingMessage, done) =>
    readBody(body, bytesMax, done),
  );
}

/** An object in a request with these fields only: an unknown one is refused everywhere. */
export const onlyFields = <Fields extends TProperties>(fields: Fields) =>
  Type.Object(fields, { additionalProperties: false });

/** The body of a management route that declares none: some clients send `{}`. */
export const noFields = nullable(onlyFields({}));

/** Accepts JSON bodies only, and takes an empty one for none, since clients send Content-Type with every DELETE. */
export function managementBodies(app: EdgeApp): void {
  const parse = app.getDefaultJsonParser('error', 'error');
  app.addHook('onRoute', (route) => {
    if (route.method === 'GET' || route.method === 'HEAD' || route.schema?.uncheckedBody !== undefined) return;
    if (route.config!.access!.surface === 'public') route.bodyLimit = publicBytesMax;
    route.schema = { body: noFields, ...route.schema };
  });
  app.decorateRequest('bodyText', '');
  app.addHook('onRequest', (request, _reply, done) => {
    if (request.url.includes('%00')) done(notStorable(fieldNotStorable(request.query)));
    else done();
  });
  app.removeAllContentTypeParsers();
  const read = (request: FastifyRequest, bytes: Buffer, done: (error: Error | null, value?: unknown) => void): void => {
    if (bytes.length === 0) {
      done(null, undefined);
      return;
    }
    // Decoded all the same, other bytes would become replacement characters: in a name for good, in a password for each other.
    if (!isUtf8(bytes)) {
      done(invalidRequest(undefined, 'The request body is not valid UTF-8.'), undefined);
      return;
    }
    const text = bytes.toString();
    request.bodyText = text;
    parse(request, text, (error, value) => {
      if (error !== null) {
        done(invalidRequest(undefined, 'The request body is not valid JSON.'), undefined);
      } else if (nulOrSurrogate.test(text) && !isStorable(value)) {
        done(notStorable(fieldNotStorable(value)), undefined);
      } else {
        const twice = duplicateMember(text);
        const inexact = inexactAmount(text);
        if (twice !== undefined)
          done(invalidRequest(twice, `\`${twice}\` is given twice.`, 'duplicate_field'), undefined);
        else if (inexact !== undefined) done(notExact(inexact), undefined);
        else done(null, value);
      }
    });
  };
  app.addContentTypeParser('application/json', (request, body: IncomingMessage, done) =>
    readBody(body, request.routeOptions.bodyLimit!, (refusal, bytes) => {
      if (refusal !== null) {
        done(refusal);
        return;
      }
      try {
        read(request, bytes!, done);
      } catch (error) {
        done(error as Error);
      }
    }),
  );
}

/** Matches the JSON of every text that holds a NUL or half a surrogate pair: neither can occur unescaped in UTF-8. */
const nulOrSurrogate = /\\u(?:0000|d[89a-f])/i;

const notStorable = (field?: string) =>
  invalidRequest(field, 'Strings must be well-formed Unicode without NUL characters.', 'invalid_value');

const notExact = (field: string) => invalidValue(field, 'it has too many significant digits. Send at most 15');

/** The member of a body, or of a query, that holds such a text; undefined when it is in a name, or the body is no object. */
function fieldNotStorable(body: unknown): string | undefined {
  if (!isObject(body)) return undefined;
  return Object.entries(body).find(([name, value]) => isStorableText(name) && !isStorable(value))?.[0];
}

/** Keeps its own stack, since a body may be nested deeper than the call stack allows. */
function isStorable(body: unknown): boolean {
  const pending: unknown[] = [body];
  while (pending.length > 0) {
    const value = pending.pop();
    if (typeof value === 'string' && !isStorableText(value)) return false;
    if (typeof value !== 'object' || value === null) continue;
    // One by one: spreading a million arguments would overflow it as well.
    for (const [key, inner] of Object.entries(value)) pending.push(key, inner);
  }
  return true;
}
