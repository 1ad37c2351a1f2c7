import type pg from 'pg';
import { asBuffer } from '#shared/as-buffer.ts';
import { notFound } from '#shared/errors.ts';

/** The request of a job, kept until its end, or its result. */
export const bodyKinds = { request: 1, result: 2 } as const;
type BodyKind = (typeof bodyKinds)[keyof typeof bodyKinds];

/**
 * Smaller requests and results stand in their job's row (columns `request` and `result`); larger ones by themselves and in parts, so
 * that they keep no other job waiting.
 */
export const inRowBytesMax = 64 * 1024;

/** Bytes in one part: what a statement can carry without holding anybody up. */
const partBytes = 1024 * 1024;

type JobKey = { tenantId: string; id: string };
type Sql = Pick<pg.ClientBase, 'query'>;

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

/**
 * A body that does not stand in its job's row. @throws GatewayError NOT_FOUND when there is none (any more): a job may be removed, and a
 * request with the cancellation, between two reads.
 */
export async function readBody(sql: Pick<pg.Pool, 'query'>, job: JobKey, kind: BodyKind): Promise<Buffer> {
  const parts: Buffer[] = [];
  for (;;) {
    // A few parts at a time: an answer of hundreds of megabytes would take longer than a statement may.
    const { rows } = await sql.query<{ bytes: Buffer; left: bigint }>({
      name: 'jobs-read-body',
      text: `select bytes, count(*) over () as left from job_bodies
        where tenant_id = $1 and job_id = $2 and kind = $3 and part >= $4 order by part limit 16`,
      values: [job.tenantId, job.id, kind, parts.length],
    });
    if (rows.length === 0) throw notFound('job');
    for (const { bytes } of rows) parts.push(bytes);
    if (rows.length === Number(rows[0]!.left)) return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
  }
}
