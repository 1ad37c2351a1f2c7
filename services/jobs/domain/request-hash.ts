import { createHash } from 'node:crypto';
import type { SubmitRequest } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { asBuffer } from '#shared/as-buffer.ts';
import { endpointOf } from '#shared/operations.ts';

const boundaryPattern = /;\s*boundary=(?:"([^"]+)"|([^;\s]+))/i;

/**
 * Tells apart two submissions with the same Idempotency-Key. The boundary of a form does not count: clients choose a new one each time they
 * send the same form.
 */
export function requestHash(request: Pick<SubmitRequest, 'operation' | 'contentType' | 'body'>): Buffer {
  const hash = createHash('sha256').update(endpointOf(request.operation)).update('\n');
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
