import { createHash } from 'node:crypto';
import { v7 } from 'uuid';
import type { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { MeteredEvent } from '../../../services/models/metering/metered-event.ts';

// The enum itself would load the generated code of all messages into each process that is killed.
const chatCompletions = 1 satisfies Operation;

/** Recognizable ids of the organization, its users and their keys. */
export const ids = (kind: number, number: number): string =>
  `0197f2a5-000${kind}-7000-8000-${String(number).padStart(12, '0')}`;

export const tenantId = ids(1, 1);

/** What a request uses, whenever and by whomever this is asked: the truth needs no record of its own that a kill could tear. */
export function truthOf(requestId: string): MeteredEvent {
  const bytes = createHash('sha256').update(requestId).digest();
  const user = bytes[0]! % 3;
  const failed = bytes[1]! % 10 === 0;
  return {
    id: '',
    tenantId,
    userId: ids(2, user),
    apiKeyId: bytes[2]! % 6 === 0 ? '' : ids(3, user * 2 + (bytes[3]! % 2)),
    sessionId: '',
    model: ['small-chat', 'large-chat', 'embedder'][bytes[4]! % 3]!,
    deploymentId: '',
    endpoint: ['/v1/chat/completions', '/v1/embeddings'][bytes[5]! % 2]!,
    operation: chatCompletions,
    success: !failed,
    status: failed ? 502 : 200,
    errorCode: failed ? 'upstream_error' : '',
    inputTokens: bytes.readUInt16LE(6),
    cachedInputTokens: bytes[8]! % 2 === 0 ? 0 : bytes[9]!,
    outputTokens: bytes[10]! % 4 === 0 ? 0 : bytes.readUInt16LE(11),
    images: bytes[13]! % 2,
    audioMs: bytes.readUInt16LE(14),
    characters: bytes[16]!,
    costNanoUsd: BigInt(bytes.readUInt32LE(17)),
    priceVersionId: ids(4, 1),
    latencyMs: bytes.readUInt16LE(21),
    ttftMs: null,
    streamed: bytes[23]! % 2 === 0,
    requestId,
    jobId: '',
    leaseIds: [],
  };
}

/** The event of a request, up to ten days late by the time in its id. */
export function eventOf(requestId: string): MeteredEvent {
  const lateMs = createHash('sha256').update(`late ${requestId}`).digest().readUInt32LE(0) % (10 * 86_400_000);
  return { ...truthOf(requestId), id: v7({ msecs: Date.now() - lateMs }) };
}
