import type { Api } from '../../api/client.ts';
import { ApiError } from '../../api/error.ts';
import { type AnswerMessage, type AnswerParts, partsOf, sourcesBeside } from './answer-parts.ts';
import type { ChatRequest } from './chat-request.ts';

export type ChatUsage = { prompt_tokens: number; completion_tokens: number; total_tokens: number };
type Chunk = {
  choices?: { delta?: AnswerMessage | null; finish_reason?: string | null }[];
  citations?: unknown;
  usage?: ChatUsage | null;
  error?: { message?: string; code?: string | null };
};

/** What comes of an answer at once. */
type Piece = Partial<AnswerParts> & { finishReason?: string; usage?: ChatUsage };

/**
 * Streams a chat completion using the session. Yields its parts as they come, and at the end why it ended and its usage. An error after
 * the first byte arrives as a frame of the stream (openai-contract.md section 3) and is thrown, as is a frame that is no JSON object.
 */
export async function* streamChat(api: Api, request: ChatRequest, signal: AbortSignal): AsyncGenerator<Piece> {
  const response = await api.fetch('/api/v1/chat/completions', {
    method: 'POST',
    body: { ...request, stream: true, stream_options: { include_usage: true } },
    signal,
  });
  const requestId = response.headers.get('x-request-id');
  const broken = (message: string, code: string | null = null) =>
    new ApiError({ status: 502, message, code, param: null, requestId });
  let ended = false;
  for await (const data of sseData(response)) {
    if (data === '[DONE]') {
      ended = true;
      break;
    }
    const chunk = chunkOf(data);
    if (chunk === null) throw broken('The answer has a part that is not understood.');
    if (chunk.error !== undefined) throw broken(chunk.error.message ?? 'The stream failed.', chunk.error.code);
    const choice = chunk.choices?.[0];
    if (choice?.delta != null) yield partsOf(choice.delta);
    const sources = sourcesBeside(chunk.citations);
    if (sources.length > 0) yield { sources };
    if (choice?.finish_reason != null) yield { finishReason: choice.finish_reason };
    if (chunk.usage != null) yield { usage: chunk.usage };
  }
  if (!ended) throw broken('The answer ended before it was complete.');
}

/** A chunk of the stream; null if it is no JSON object. */
function chunkOf(data: string): Chunk | null {
  try {
    const chunk: unknown = JSON.parse(data);
    return typeof chunk === 'object' && !Array.isArray(chunk) ? chunk : null;
  } catch {
    return null;
  }
}

/** The `data:` of each server-sent event; comments and other fields are skipped. */
async function* sseData(response: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  const reader = response.body!.getReader();
  try {
    for (;;) {
      // A broken response ends here, just like one that its server ended early.
      const { done, value } = await reader.read().catch(() => ({ done: true, value: undefined }));
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      const events = rest.split(/\r?\n\r?\n/);
      rest = done ? '' : (events.pop() ?? '');
      for (const event of events) {
        const data = event
          .split(/\r?\n/)
          .filter((line) => line.startsWith('data:'))
          .map((line) => line.slice(5).replace(/^ /, ''))
          .join('\n');
        if (data !== '') yield data;
      }
      if (done) return;
    }
  } finally {
    // Leaving early (on Stop) closes the connection, and with it the upstream's.
    await reader.cancel().catch(() => {});
  }
}
