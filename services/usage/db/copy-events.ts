import { from } from 'pg-copy-streams';
import type { UsageEvent } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import type { Sql } from '#shared/db/sql.ts';
import { inTurns } from '#shared/in-turns.ts';
import { BinaryWriter } from './binary.ts';

const copyText = `copy events (tenant_id, id, user_id, api_key_id, session_id, model, deployment_id, endpoint, operation, success,
  status, error_code, input_tokens, cached_input_tokens, output_tokens, images, audio_ms, characters, cost_nano_usd, latency_ms,
  ttft_ms, streamed, price_version_id, request_id, job_id, lease_ids) from stdin (format binary)`;

/** About a millisecond of work. */
const rowsPerTurn = 250;

/**
 * Writes events by COPY, at half the cost of any INSERT. COPY has no `on conflict`: an existing id makes it fail with unique_violation.
 * Give it events sorted by organization and id, so that two batches with the same ones wait for each other instead of deadlocking.
 */
export async function copyEvents(client: Sql, events: readonly UsageEvent[]): Promise<void> {
  const writer = new BinaryWriter(events.length * 512);
  writer.raw(fileStart);
  for await (const slice of inTurns(events, rowsPerTurn)) {
    for (const event of slice) writeRow(writer, event);
  }
  writer.int16(fileEnd);
  return new Promise((resolve, reject) => {
    const copy = client.query(from(copyText));
    copy.once('error', reject);
    copy.once('finish', resolve);
    copy.end(writer.bytes());
  });
}

/** The signature, no flags, and no header extension. */
const fileStart = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
const fileEnd = -1;
const columnCount = 26;

function writeRow(row: BinaryWriter, event: UsageEvent): void {
  const used = event.usage!;
  row.int16(columnCount);
  row.uuid(event.tenantId);
  row.uuid(event.id);
  row.uuid(event.userId);
  uuidOrNull(row, event.apiKeyId);
  uuidOrNull(row, event.sessionId);
  row.text(event.model);
  uuidOrNull(row, event.deploymentId);
  row.text(event.endpoint);
  row.smallint(event.operation);
  row.boolean(event.success);
  row.integer(event.status);
  row.text(event.errorCode);
  row.bigint(used.inputTokens);
  row.bigint(used.cachedInputTokens);
  row.bigint(used.outputTokens);
  row.bigint(used.images);
  row.bigint(used.audioMs);
  row.bigint(used.characters);
  row.bigint(used.costNanoUsd);
  row.bigint(event.latencyMs);
  if (event.ttftMs === undefined) row.null();
  else row.bigint(event.ttftMs);
  row.boolean(event.streamed);
  uuidOrNull(row, event.priceVersionId);
  row.text(event.requestId);
  uuidOrNull(row, event.jobId);
  row.uuids(event.leaseIds);
}

const uuidOrNull = (row: BinaryWriter, id: string): void => (id === '' ? row.null() : row.uuid(id));
