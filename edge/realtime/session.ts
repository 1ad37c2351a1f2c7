import type { Client } from '@connectrpc/connect';
import type { FastifyRequest } from 'fastify';
import type {
  InferenceService,
  TranscribeResponse,
  TranscribeStart,
} from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { callerContext } from '#shared/rpc/caller.ts';
import { callerOfRequest } from '../caller.ts';
import { ClientEvents } from './client-events.ts';

/** A session that InferenceService has admitted; its socket may not be open yet. */
export type AdmittedSession = {
  events: ClientEvents;
  /** What InferenceService says, `session.created` first. */
  responses: AsyncIterable<TranscribeResponse>;
  abort(): void;
};

/**
 * Opens a session before its socket is, so that a refusal is a real HTTP response (openai-contract.md section 5, stage A). Rejects with the
 * refusal.
 */
export async function admitSession(
  inference: Client<typeof InferenceService>,
  request: FastifyRequest,
  start: Pick<TranscribeStart, 'model' | 'sessionJson'>,
): Promise<AdmittedSession> {
  const { constraints } = request.principal!;
  const events = new ClientEvents({ message: { case: 'start', value: { ...start, constraints } } });
  const gone = new AbortController();
  const stream = inference
    .transcribe(events, { signal: gone.signal, contextValues: callerContext(callerOfRequest(request)) })
    [Symbol.asyncIterator]();
  const first = await stream.next();
  return { events, responses: withFirst(first, stream), abort: () => gone.abort() };
}

async function* withFirst(
  first: IteratorResult<TranscribeResponse>,
  stream: AsyncIterator<TranscribeResponse>,
): AsyncGenerator<TranscribeResponse> {
  for (let next = first; !next.done; next = await stream.next()) yield next.value;
}
