import { createHash } from 'node:crypto';
import { asBuffer } from '#shared/as-buffer.ts';

const boundaryPattern = /;\s*boundary=(?:"([^"]+)"|([^;\s]+))/i;

/**
 * Tells apart two submissions with the same Idempotency-Key. The boundary of a form does not count: clients choose a new one each time they
 * send the same form.
 */
export function requestHash(request: { endpoint: string; contentType: string; body: Uint8Array }): Buffer {
  const hash = createHash('sha256').update(request.endpoint).update('\n');
  const match = boundaryPattern.exec(request.contentType);
  const boundary = match?.[1] ?? match?.[2];
  const body = asBuffer(request.body);
  if (boundary === undefined) return hash.update(body).digest();
  const delimiter = `--${boundary}`;
  let position = 0;
  for (let next = body.indexOf(delimiter); next !== -1; next = body.indexOf(delimiter, position)) {
    hash.update(body.subarray(position, next)).update('--\n');
    position = next + delimiter.length;
  }
  return hash.update(body.subarray(position)).digest();
}
