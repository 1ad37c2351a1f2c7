import { asBuffer } from '#shared/as-buffer.ts';
import { isObject } from '#shared/is-object.ts';
import type { Tokenizer } from '../bytes/tokens.ts';

/** Members whose strings are not words of the prompt: media, and settings of the answer. */
const notWords = new Set(['model', 'image_url', 'input_audio', 'file', 'user', 'metadata']);

type Words = { texts: string[]; tokens: number };

/** The tokens of a request's prompt, for when the upstream does not report them. Token arrays count as they are. */
export async function countPrompt(body: Uint8Array, tokenizer: Tokenizer): Promise<number> {
  const parsed = JSON.parse(asBuffer(body).toString('utf8')) as Record<string, unknown>;
  const words: Words = { texts: [], tokens: 0 };
  for (const part of [parsed.messages, parsed.tools]) collect(part, words);
  for (const part of [parsed.prompt, parsed.input]) {
    collect(part, words);
    words.tokens += tokensGiven(part);
  }
  return words.tokens + (await tokenizer.count(words.texts.join('\n')));
}

/** The words of a whole completion: contents, reasoning, spoken text, and the text of tool calls. */
export function outputText(body: Uint8Array): string {
  const { choices } = JSON.parse(asBuffer(body).toString('utf8')) as { choices?: unknown };
  const words: Words = { texts: [], tokens: 0 };
  for (const choice of Array.isArray(choices) ? choices : []) {
    const { text, message } = (choice ?? {}) as { text?: unknown; message?: Record<string, unknown> | null };
    for (const part of [text, message?.content, message?.reasoning_content, message?.reasoning, message?.refusal]) {
      collect(part, words);
    }
    if (isObject(message?.audio)) collect(message.audio.transcript, words);
    for (const call of [message?.tool_calls, { function: message?.function_call }].flat()) {
      // Only these parts; the model did not write its id and type.
      if (isObject(call)) for (const part of [call.function, call.custom]) collect(part, words);
    }
  }
  return words.texts.join('');
}

function collect(value: unknown, words: Words): void {
  if (typeof value === 'string') words.texts.push(value);
  else if (Array.isArray(value)) for (const item of value) collect(item, words);
  else if (typeof value === 'object' && value !== null) {
    for (const [name, member] of Object.entries(value)) if (!notWords.has(name)) collect(member, words);
  }
}

/** The length of `[1, 2, …]`, or of all in `[[1, 2], …]`. */
function tokensGiven(value: unknown): number {
  if (!Array.isArray(value)) return 0;
  return value.reduce<number>((sum, item) => sum + (typeof item === 'number' ? 1 : tokensGiven(item)), 0);
}
