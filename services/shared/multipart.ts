import { asBuffer } from './as-buffer.ts';
import { ErrorReason, type GatewayError, gatewayError, invalidRequest } from './errors.ts';
import { GrowingBuffer } from './growing-buffer.ts';

/** One part of a form, by its byte positions in the body. */
export type FormPart = {
  name: string;
  /** Null for a plain field. */
  fileName: string | null;
  contentType: string | null;
  /** Where the line break and dashes before the part begin; the part ends with its content. */
  start: number;
  contentStart: number;
  contentEnd: number;
  /** The content's first bytes: all of a field, `fileHeadBytes` of a file. */
  head: Buffer;
};

/** The largest audio file, in bytes (openai-contract.md section 4). */
export const audioFileBytesMax = 26_214_400;
/** How much of a file's beginning is kept, for whoever needs to recognise its format. */
const fileHeadBytes = 64 * 1024;
const partsMax = 100;
const partHeaderBytesMax = 8 * 1024;
/** The most bytes outside the file: fields, headers, boundaries, preamble. */
const restBytesMax = 4 * 1024 * 1024;
/** The longest body that can be a form within these limits. */
export const formBytesMax = audioFileBytesMax + restBytesMax;

const lineBreak = '\r\n';
const doubleLineBreak = Buffer.from('\r\n\r\n');
/** A token and a value (RFC 9110 section 5.1), on one line. */
const headerLine = /^[\w!#$%&'*+.^`|~-]+:[^\r\n\0]*$/;

/**
 * Reads a multipart/form-data body (RFC 7578; RFC 2046 section 5.1.1) piece by piece, strictly and within limits, and notes where its parts
 * are, so that they can be passed on byte for byte.
 */
export class FormScanner {
  /** The type to pass the form on with: only its boundary, since some readers decode names by a `charset` (Starlette). */
  readonly contentType: string;
  readonly #boundaryLine: string;
  readonly #boundary: Buffer;
  #state: 'content' | 'delimiter' | 'header' | 'epilogue' = 'content';
  /**
   * Bytes received but not yet read; in content, the two before them as well. Starts with the line break that belongs to the first
   * delimiter, which a body omits.
   */
  #pending: Buffer = Buffer.from(lineBreak);
  /** Where `#pending` begins in the body. */
  #offset = -2;
  #part: Omit<FormPart, 'head'> | null = null;
  /** The head of that part, as far as it has come. */
  readonly #head = new GrowingBuffer();
  #partStart = 0;
  #restBytes = 0;
  readonly parts: FormPart[] = [];

  /** Throws UNSUPPORTED_CONTENT_TYPE unless the type is that of a form with a boundary. */
  constructor(contentType: string) {
    const boundary = boundaryOf(contentType);
    this.contentType = `multipart/form-data; boundary=${isToken.test(boundary) ? boundary : `"${boundary}"`}`;
    this.#boundaryLine = `--${boundary}`;
    this.#boundary = Buffer.from(this.#boundaryLine);
  }

  /** Takes the next bytes. Throws INVALID_REQUEST or REQUEST_TOO_LARGE. */
  push(chunk: Uint8Array): void {
    this.#pending = this.#pending.length === 0 ? asBuffer(chunk) : Buffer.concat([this.#pending, chunk]);
    while (this.#step());
  }

  /** The body has ended. Throws INVALID_REQUEST if its last boundary is missing. */
  end(): readonly FormPart[] {
    if (this.#state !== 'epilogue') throw malformed('its last boundary is missing');
    return this.parts;
  }

  /** Advances by one step; false when that needs more bytes. */
  #step(): boolean {
    switch (this.#state) {
      case 'content':
        return this.#readContent();
      case 'delimiter':
        return this.#readDelimiter();
      case 'header':
        return this.#readHeader();
      case 'epilogue':
        this.#countRest(this.#pending.length);
        this.#skip(this.#pending.length);
        return false;
    }
  }

  #readContent(): boolean {
    const at = this.#boundaryAt();
    if (at === -1) {
      // A boundary may begin in the last bytes, after two that tell what it is.
      const certain = this.#pending.length - this.#boundary.length - lineBreak.length + 1;
      if (certain > lineBreak.length) this.#takeContent(certain);
      return false;
    }
    this.#takeContent(at - lineBreak.length);
    const end = this.#offset;
    if (this.#part !== null) {
      this.parts.push({ ...this.#part, contentEnd: end, head: this.#head.take() });
      this.#part = null;
    }
    this.#partStart = end;
    this.#skip(lineBreak.length + this.#boundary.length);
    this.#state = 'delimiter';
    return true;
  }

  /**
   * Where the boundary begins a line; -1: nowhere yet. Throws where only some readers would see it: after half a line break (Werkzeug), and
   * at the beginning of a content (Go).
   */
  #boundaryAt(): number {
    const pending = this.#pending;
    for (
      let at = pending.indexOf(this.#boundary, lineBreak.length);
      at !== -1;
      at = pending.indexOf(this.#boundary, at + 1)
    ) {
      const before = pending.toString('latin1', at - lineBreak.length, at);
      const isInContent = this.#part === null || this.#offset + at >= this.#part.contentStart + lineBreak.length;
      if (before === lineBreak && isInContent) return at;
      if (/[\r\n]$/.test(before)) throw malformed('a part contains its boundary');
    }
    return -1;
  }

  /** Takes `length` pending bytes, which begin with the line break before the content if that is not taken yet. */
  #takeContent(length: number): void {
    const part = this.#part;
    if (part !== null && this.#offset < part.contentStart) {
      length -= lineBreak.length;
      this.#skip(lineBreak.length);
    }
    if (part === null) {
      // Readers differ on where parts may begin in other text. Some clients begin with a line break.
      if (/[^\r\n]/.test(this.#pending.toString('latin1', 0, length)))
        throw malformed('it does not begin with its boundary');
      this.#countRest(length);
    } else {
      const before = this.#offset - part.contentStart;
      const isFile = part.fileName !== null;
      if (isFile && before + length > audioFileBytesMax) throw fileTooLarge();
      if (!isFile) this.#countRest(length);
      const wanted = isFile ? Math.min(length, fileHeadBytes - before) : length;
      if (wanted > 0) this.#head.append(this.#pending, 0, wanted);
    }
    this.#skip(length);
  }

  #readDelimiter(): boolean {
    if (this.#pending.length < 2) return false;
    const next = this.#pending.toString('latin1', 0, 2);
    if (next !== '--' && next !== '\r\n') throw malformed('a boundary is followed by something else');
    this.#skip(2);
    this.#state = next === '--' ? 'epilogue' : 'header';
    if (this.#state === 'header' && this.parts.length === partsMax) {
      throw malformed(`it has more than ${partsMax} parts`);
    }
    return true;
  }

  #readHeader(): boolean {
    const end = this.#pending.indexOf(doubleLineBreak);
    const length = end === -1 ? this.#pending.length : end;
    if (length > partHeaderBytesMax) throw malformed('the headers of a part are too long');
    if (end === -1) return false;
    const lines = this.#pending.toString('utf8', 0, end).split('\r\n');
    // Otherwise another reader could see a part begin or end where this one reads on, and a second model in it.
    if (!lines.every((line) => headerLine.test(line) && !line.startsWith(this.#boundaryLine))) {
      throw malformed('a part has a malformed header');
    }
    this.#countRest(end + doubleLineBreak.length);
    // The second line break stays pending: a boundary right after it must not count as one.
    this.#skip(end + lineBreak.length);
    const { name, fileName } = dispositionOf(lines);
    if (fileName !== null && this.parts.some((part) => part.fileName !== null)) throw malformed('it has several files');
    this.#part = {
      name,
      fileName,
      contentType: lines.map((line) => /^content-type:\s*(\S.*)/i.exec(line)?.[1]?.trim()).find(Boolean) ?? null,
      start: this.#partStart,
      contentStart: this.#offset + lineBreak.length,
      contentEnd: this.#offset + lineBreak.length,
    };
    this.#state = 'content';
    return true;
  }

  #countRest(bytes: number): void {
    this.#restBytes += bytes;
    if (this.#restBytes > restBytesMax) throw tooLarge('The form has more than 4 MiB beside its file.');
  }

  #skip(bytes: number): void {
    this.#pending = this.#pending.subarray(bytes);
    this.#offset += bytes;
  }
}

/** The text of a plain field; undefined when there is none. Throws when the field occurs twice. */
export function formField(parts: readonly FormPart[], name: string): string | undefined {
  const found = parts.filter((part) => part.name === name && part.fileName === null);
  if (found.length > 1) throw invalidRequest(name, `\`${name}\` is given twice.`, 'duplicate_field');
  return found[0]?.head.toString('utf8');
}

export const fileTooLarge = (): GatewayError =>
  tooLarge(`The audio file is larger than 25 MiB (${audioFileBytesMax} bytes).`, 'file');

const malformed = (why: string): GatewayError =>
  invalidRequest(undefined, `The multipart form cannot be read: ${why}.`, 'invalid_form');

const tooLarge = (text: string, param?: string): GatewayError =>
  gatewayError(ErrorReason.REQUEST_TOO_LARGE, text, { param });

/** A name from outside, shortened for an error text. */
const shown = (name: string): string => name.slice(0, 64);

const isToken = /^[\w!#$%&'*+.^`|~-]+$/;

function boundaryOf(contentType: string): string {
  const match =
    /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([ !#-[\]-~]{1,70})"|([!#-:<-~]{1,70}))\s*(?:;|$)/i.exec(
      contentType,
    );
  const boundary = match?.[1] ?? match?.[2];
  // If there were two boundaries, another reader could use the other one.
  if (boundary === undefined || contentType.match(/boundary[\d*\s]*=/gi)!.length > 1) {
    throw gatewayError(ErrorReason.UNSUPPORTED_CONTENT_TYPE, 'Send `multipart/form-data` with a boundary.');
  }
  return boundary;
}

const parameter = /;\s*([\w!#$%&'*+.^`|~-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))\s*/gy;

function dispositionOf(lines: readonly string[]): { name: string; fileName: string | null } {
  const dispositions = lines.filter((line) => /^content-disposition:/i.test(line));
  const type = /^[^:]*:\s*form-data\s*(?=;|$)/i.exec(dispositions[0] ?? '');
  if (type === null || dispositions.length > 1) throw malformed('a part has no Content-Disposition of form-data');
  const said = dispositions[0]!.slice(type[0].length);
  const parameters = new Map<string, string>();
  let readTo = 0;
  for (const match of said.matchAll(parameter)) {
    const key = match[1]!.toLowerCase();
    // Readers differ on which of the two counts.
    if (parameters.has(key)) throw malformed(`a part has two parameters \`${shown(key)}\``);
    // Some readers prefer a name in the form of RFC 2231, which may come in sections (`name*0`), or take a backslash for a part of it.
    if ((key.includes('*') && key !== 'filename*') || (key === 'name' && match[0].includes('\\'))) {
      throw malformed(`a part has a parameter \`${shown(key)}\` that cannot be read`);
    }
    parameters.set(key, match[2]?.replace(/\\(.)/g, '$1') ?? match[3]!);
    readTo = match.index + match[0].length;
  }
  const name = parameters.get('name');
  if (name === undefined) throw malformed('a part has no name');
  if (!/^;?\s*$/.test(said.slice(readTo))) throw malformed('a part has a Content-Disposition that cannot be read');
  // A name in the form of RFC 5987 only shows that this is a file.
  return { name, fileName: parameters.get('filename') ?? parameters.get('filename*') ?? null };
}
