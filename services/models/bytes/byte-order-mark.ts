const markAndBrace = 0xefbbbf7b;
const markBytes = 3;

/**
 * A body without the byte order mark that some servers put before a JSON object, and that readers may ignore (RFC 8259 section 8.1). Text
 * keeps its own.
 */
export const withoutMark = (body: Buffer): Buffer =>
  body.length > markBytes && body.readUInt32BE() === markAndBrace ? body.subarray(markBytes) : body;
