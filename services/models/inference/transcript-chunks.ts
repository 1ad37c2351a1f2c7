import { isObject } from '#shared/is-object.ts';
import type { ReportedUsage } from '../bytes/reported-usage.ts';
import { frameBytesMax } from '../bytes/sse.ts';
import type { EventsOfChunks } from './event-stream-reader.ts';

/**
 * Converts a transcript that vLLM streams in chunks like those of a chat (`transcription.chunk`), unknown to OpenAI's clients, to the
 * events of openai-contract.md section 4. A chunk with a `finish_reason` ends one window of the audio; another window may follow. A text
 * longer than an event may be is never complete.
 */
export class TranscriptChunks implements EventsOfChunks {
  #text = '';
  #isFinished = false;

  delta(choices: unknown): { type: string; delta: string } | null {
    const choice = Array.isArray(choices) ? choices[0] : undefined;
    if (!isObject(choice)) return null;
    this.#isFinished = typeof choice.finish_reason === 'string';
    const delta = isObject(choice.delta) ? choice.delta.content : undefined;
    if (typeof delta !== 'string' || delta === '') return null;
    if (this.#text.length <= frameBytesMax) this.#text += delta;
    return { type: 'transcript.text.delta', delta };
  }

  last(usage: ReportedUsage | null): object | null {
    if (!this.#isFinished || this.#text.length > frameBytesMax) return null;
    const done = { type: 'transcript.text.done', text: this.#text };
    // Clients know only a usage in tokens here, which may be missing.
    return usage === null ? done : { ...done, usage: tokensOf(usage) };
  }
}

const tokensOf = ({ inputTokens, outputTokens, totalTokens }: ReportedUsage): object => ({
  type: 'tokens',
  input_tokens: inputTokens ?? 0,
  output_tokens: outputTokens ?? 0,
  total_tokens: totalTokens,
});
