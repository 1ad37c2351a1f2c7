import { asBuffer } from '#shared/as-buffer.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Sql } from '#shared/db/sql.ts';
import { notFound } from '#shared/errors.ts';

/** A job's request, kept until its end, or its result. */
export const bodyKinds = { request: 1, result: 2 } as const;
type BodyKind = (typeof bodyKinds)[keyof typeof bodyKinds];

/**
 * Smaller requests and results are stored in their job's row (columns `request` and `result`), larger ones separately and in parts, so that
 * they delay no other job.
 */
export const inRowBytesMax = 64 * 1024;

/** How many larger ones are written or read at once: each on less than half of the connections, so that everything else finds one. */
export const largeBodiesAtOnce = 4;

/** The size of a part: as much as a statement can carry without holding anybody up. */
const partBytes = 1024 * 1024;

/** How many bytes of bodies one statement deletes: a gibibyte takes seconds, and a statement has five. */
export const deletedBytesMax = 128 * 1024 * 1024;

type JobKey = { tenantId: string; id: string };
/** Writes a large body in parts, in the caller's transaction. */
export async function writeBody(sql: Sql, { tenantId, id }: JobKey, kind: BodyKind, body: Uint8Array): Promise<void> {
  const bytes = asBuffer(body);
  for (let part = 0; part * partBytes < bytes.length || part === 0; part += 1) {
    await sql.query({
      name: 'jobs-write-body',
      text: 'insert into job_bodies (tenant_id, job_id, kind, part, bytes) values ($1, $2, $3, $4, $5)',
      values: [tenantId, id, kind, part, bytes.subarray(part * partBytes, (part + 1) * partBytes)],
    });
  }
}

/** Deletes a body again, in the transaction that wrote it. */
export async function deleteBody(sql: Sql, { tenantId, id }: JobKey, kind: BodyKind): Promise<void> {
  await sql.query({
    text: 'delete from job_bodies where tenant_id = $1 and job_id = $2 and kind = $3',
    values: [tenantId, id, kind],
  });
}

/** The length of a body outside its job's row. @throws GatewayError NOT_FOUND as `readBody` does. */
export async function bodyBytes(
  database: Pick<ServiceDatabase, 'query'>,
  { tenantId, id }: JobKey,
  kind: BodyKind,
): Promise<number> {
  const { rows } = await database.query<{ bytes: bigint | null }>({
    name: 'jobs-body-bytes',
    text: `select sum(octet_length(bytes)) as bytes from job_bodies where tenant_id = $1 and job_id = $2 and kind = $3`,
    values: [tenantId, id, kind],
  });
  const bytes = rows[0]!.bytes;
  if (bytes === null) throw notFound('job');
  return Number(bytes);
}

/**
 * A body outside its job's row. @throws GatewayError NOT_FOUND when there is none (any more): between two reads the job may be removed, or
 * its request by a cancellation. Reading ends when `signal` aborts.
 */
export async function readBody(sql: Sql, job: JobKey, kind: BodyKind, signal?: AbortSignal): Promise<Buffer> {
  let body: Buffer | undefined;
  let part = 0;
  let filled = 0;
  do {
    signal?.throwIfAborted();
    // A few parts at a time: an answer of hundreds of megabytes would take longer than a statement may.
    const { rows } = await sql.query<{ bytes: Buffer; left: bigint }>({
      name: 'jobs-read-body',
      text: `select bytes, sum(octet_length(bytes)) over () as left from job_bodies
        where tenant_id = $1 and job_id = $2 and kind = $3 and part >= $4 order by part limit 16`,
      values: [job.tenantId, job.id, kind, part],
    });
    if (rows.length === 0) throw notFound('job');
    // Allocated once in full length: joining the parts at the end would take the memory twice.
    body ??= Buffer.allocUnsafe(Number(rows[0]!.left));
    for (const { bytes } of rows) filled += bytes.copy(body, filled);
    part += rows.length;
  } while (filled < body.byteLength);
  return body;
}
