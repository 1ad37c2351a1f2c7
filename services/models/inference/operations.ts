import type { InvokeRequest } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { ErrorReason, gatewayError, invalidRequest } from '#shared/errors.ts';
import type { Measures } from '../domain/price.ts';
import type { AnswerEnd, AnswerReader, PreparedCall } from './prepared-call.ts';

const paths: ReadonlyMap<Operation, string> = new Map([
  [Operation.CHAT_COMPLETIONS, '/chat/completions'],
  [Operation.COMPLETIONS, '/completions'],
  [Operation.EMBEDDINGS, '/embeddings'],
]);

export function upstreamPath(operation: Operation): string {
  const path = paths.get(operation);
  if (path === undefined) throw gatewayError(ErrorReason.UNIMPLEMENTED, 'This operation is not built yet.');
  return path;
}

/** INTERIM: parses whole bodies. */
export function prepareCall(request: InvokeRequest): PreparedCall {
  let body: Record<string, unknown>;
  try {
    body = JSON.parse(Buffer.from(request.body).toString('utf8'));
  } catch {
    throw invalidRequest(undefined, 'The request body is not valid JSON.');
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw invalidRequest(undefined, 'The request body must be a JSON object.');
  const { model } = body;
  if (model === undefined) throw invalidRequest('model', 'You must name a model.', 'missing_required_field');
  if (typeof model !== 'string') throw invalidRequest('model', '`model` must be a string.', 'invalid_value');
  const streamed = body.stream === true;
  const includeUsage = (body.stream_options as { include_usage?: boolean } | undefined)?.include_usage === true;
  return {
    model,
    streamed,
    estimate: { inputTokens: Math.ceil(request.body.byteLength / 4), outputTokensMax: null },
    contentType: 'application/json',
    bodyFor: (upstreamModel) => {
      const options = streamed
        ? { stream_options: { ...(body.stream_options as object | undefined), include_usage: true } }
        : {};
      return [Buffer.from(JSON.stringify({ ...body, ...options, model: upstreamModel }))];
    },
    reader: () => (streamed ? new StreamReader(includeUsage) : new WholeReader()),
    countInputTokens: async () => Math.ceil(request.body.byteLength / 4),
  };
}

type Usage = { prompt_tokens?: number; completion_tokens?: number; prompt_tokens_details?: { cached_tokens?: number } };
const measuresOf = (usage: Usage | null | undefined): Partial<Measures> | null =>
  usage == null
    ? null
    : {
        inputTokens: usage.prompt_tokens ?? 0,
        outputTokens: usage.completion_tokens ?? 0,
        cachedInputTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
      };

class WholeReader implements AnswerReader {
  contentType = 'application/json';
  passesOn = false;
  complete = false;
  outputTokensSoFar = 0;
  #pieces: Uint8Array[] = [];
  push(chunk: Uint8Array): readonly Uint8Array[] {
    this.#pieces.push(chunk);
    return [];
  }
  end(_cut: boolean): AnswerEnd {
    const body = Buffer.concat(this.#pieces);
    try {
      const parsed = JSON.parse(body.toString('utf8'));
      return { forward: [body], reported: measuresOf(parsed.usage), countOutputTokens: async () => 0, failure: null };
    } catch {
      return {
        forward: [],
        reported: null,
        countOutputTokens: async () => 0,
        failure: { code: 'upstream_error', message: 'not JSON' },
      };
    }
  }
}

class StreamReader implements AnswerReader {
  contentType = 'text/event-stream; charset=utf-8';
  passesOn = true;
  complete = false;
  outputTokensSoFar = 0;
  #rest = '';
  #usage: Usage | null = null;
  #finished = false;
  #includeUsage: boolean;
  #decoder = new TextDecoder();
  constructor(includeUsage: boolean) {
    this.#includeUsage = includeUsage;
  }
  push(chunk: Uint8Array): readonly Uint8Array[] {
    this.#rest += this.#decoder.decode(chunk, { stream: true });
    const events = this.#rest.split('\n\n');
    this.#rest = events.pop()!;
    const out: string[] = [];
    for (const event of events) {
      const data = event.replace(/^data: ?/, '');
      if (data === '[DONE]') {
        this.complete = true;
        continue;
      }
      let parsed: { usage?: Usage; choices?: { finish_reason?: string; delta?: { content?: string } }[] };
      try {
        parsed = JSON.parse(data);
      } catch {
        continue;
      }
      if (parsed.usage) this.#usage = parsed.usage;
      for (const choice of parsed.choices ?? []) {
        if (choice.finish_reason) this.#finished = true;
        if (choice.delta?.content) this.outputTokensSoFar++;
      }
      if (!this.#includeUsage && parsed.choices?.length === 0) continue;
      out.push(`${event}\n\n`);
    }
    return out.length === 0 ? [] : [Buffer.from(out.join(''))];
  }
  end(cut: boolean): AnswerEnd {
    const whole = !cut && this.#finished;
    const soFar = this.outputTokensSoFar;
    return {
      forward: whole ? [Buffer.from('data: [DONE]\n\n')] : [],
      reported: measuresOf(this.#usage),
      countOutputTokens: async () => soFar,
      failure: whole ? null : { code: 'upstream_error', message: 'the stream ended without a finish_reason' },
    };
  }
}
