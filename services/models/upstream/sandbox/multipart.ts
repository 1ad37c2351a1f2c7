import { Refusal } from './answer.ts';

/** A parsed form. Fields which come several times keep all their values, in order. */
export type Form = {
  fields: ReadonlyMap<string, readonly string[]>;
  /** The content of `file`. */
  file: Buffer | undefined;
};

const partsMax = 100;
const partHeaderBytesMax = 8 * 1024;
const bad = (why: string): Refusal => new Refusal(`Could not parse the multipart form: ${why}.`);

/** Reads a multipart/form-data body (RFC 7578, RFC 2046 section 5.1.1), strictly: what is malformed is a 400. */
export function parseMultipart(contentType: string, body: Buffer): Form {
  const delimiter = Buffer.from(`\r\n--${boundaryOf(contentType)}`);
  const fields = new Map<string, string[]>();
  let file: Form['file'];
  // The first delimiter needs no line break before it.
  let at = body.subarray(0, delimiter.length - 2).equals(delimiter.subarray(2))
    ? delimiter.length - 2
    : after(body.indexOf(delimiter), delimiter.length);
  for (let parts = 0; ; parts++) {
    const next = body.toString('latin1', at, at + 2);
    if (next === '--') return { fields, file };
    if (next !== '\r\n') throw bad('a boundary is followed by something else');
    if (parts === partsMax) throw bad(`it has more than ${partsMax} parts`);
    const headerEnd = body.indexOf('\r\n\r\n', at);
    if (headerEnd === -1 || headerEnd - at > partHeaderBytesMax) throw bad('a part has no end of its header');
    const end = body.indexOf(delimiter, headerEnd + 2);
    if (end === -1) throw bad('the last boundary is missing');
    const { name, isFile } = dispositionOf(body.toString('utf8', at + 2, headerEnd));
    const content = body.subarray(Math.min(headerEnd + 4, end), end);
    if (!isFile) {
      const values = fields.get(name) ?? [];
      values.push(content.toString());
      fields.set(name, values);
    } else if (name === 'file' && file === undefined) {
      file = content;
    } else throw bad('only one file is expected, in the field file');
    at = end + delimiter.length;
  }
}

function after(index: number, length: number): number {
  if (index === -1) throw bad('its boundary is nowhere in it');
  return index + length;
}

function boundaryOf(contentType: string): string {
  const match = /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i.exec(contentType);
  const boundary = match?.[1] ?? match?.[2];
  if (boundary === undefined) {
    throw new Refusal('Expected a multipart/form-data body with a boundary.', {
      status: 415,
      code: 'unsupported_content_type',
    });
  }
  return boundary;
}

function dispositionOf(header: string): { name: string; isFile: boolean } {
  const line = header.split('\r\n').find((candidate) => /^content-disposition\s*:/i.test(candidate));
  if (line === undefined || !/:\s*form-data\s*(;|$)/i.test(line)) throw bad('a part has no Content-Disposition');
  const parameter = (key: string) => {
    const match = new RegExp(`;\\s*${key}=(?:"((?:[^"\\\\]|\\\\.)*)"|([^\\s;"]+))`, 'i').exec(line);
    return match === null ? undefined : (match[1]?.replace(/\\(.)/g, '$1') ?? match[2]!);
  };
  const name = parameter('name');
  if (name === undefined) throw bad('a part has no name');
  // A file name says no more than that this is a file; it may be in RFC 5987 form.
  return { name, isFile: (parameter('filename') ?? parameter('filename\\*')) !== undefined };
}
