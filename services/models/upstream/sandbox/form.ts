import { ErrorReason, GatewayError } from '#shared/errors.ts';
import { FormScanner } from '#shared/multipart.ts';
import { Refusal } from './answer.ts';

/** A parsed form. Fields which come several times keep all their values, in order. */
export type Form = {
  fields: ReadonlyMap<string, readonly string[]>;
  /** The content of `file`. */
  file: Buffer | undefined;
};

/** Reads a multipart/form-data body. */
export function readForm(contentType: string, body: Buffer): Form {
  const fields = new Map<string, string[]>();
  let file: Form['file'];
  for (const { name, fileName, head, contentStart, contentEnd } of partsOf(contentType, body)) {
    if (fileName === null) fields.set(name, [...(fields.get(name) ?? []), head.toString()]);
    else if (name === 'file') file = body.subarray(contentStart, contentEnd);
  }
  return { fields, file };
}

function partsOf(contentType: string, body: Buffer) {
  try {
    const scanner = new FormScanner(contentType);
    scanner.push(body);
    return scanner.end();
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    const { param, code } = error.details;
    throw new Refusal(error.message, { status: statusOf(error.reason), param, code });
  }
}

function statusOf(reason: ErrorReason): number {
  if (reason === ErrorReason.UNSUPPORTED_CONTENT_TYPE) return 415;
  return reason === ErrorReason.REQUEST_TOO_LARGE ? 413 : 400;
}
