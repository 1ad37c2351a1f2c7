import { asBuffer } from '#shared/as-buffer.ts';
import { isObject } from '#shared/is-object.ts';
import type { Tokenizer } from '../bytes/tokens.ts';

/** The members of a content part that have words. The others are media, in shapes that each server invents for itself, or name its kind. */
const wordsOfParts = ['text', 'refusal', 'thinking', 'content'];

/** The tokens of a request's prompt, for when the upstream does not report them. Token arrays count as they are. */
export async function countPrompt(body: Uint8Array, tokenizer: Tokenizer): Promise<number> {
  const parsed = JSON.parse(asBuffer(body).toString('utf8')) as Record<string, unknown>;
  const chat: string[] = [];
  for (const message of [parsed.messages].flat()) {
    if (!isObject(message)) continue;
    collect([message.role, message.name], chat);
    collectMessage(message, chat);
  }
  // `functions` is the deprecated form of `tools`.
  collect([parsed.tools, parsed.functions], chat);
  let tokens = await tokenizer.count(chat.join('\n'));
  for (const part of [parsed.prompt, parsed.suffix, parsed.input]) {
    const prompts: string[] = [];
    collectContent(part, prompts);
    for (const text of prompts) tokens += await tokenizer.count(text);
    tokens += tokensGiven(part);
  }
  return tokens;
}

/** The words of a whole completion: contents, reasoning, spoken text, and the text of tool calls. */
export function outputText(body: Uint8Array): string {
  const { choices } = JSON.parse(asBuffer(body).toString('utf8')) as { choices?: unknown };
  const words: string[] = [];
  for (const choice of Array.isArray(choices) ? choices : []) {
    const { text, message } = (choice ?? {}) as { text?: unknown; message?: unknown };
    collectContent(text, words);
    if (!isObject(message)) continue;
    collectMessage(message, words);
    if (isObject(message.audio)) collect(message.audio.transcript, words);
  }
  return words.join('');
}

/**
 * An answer's text without what it repeats of its request, each up to `times` times one after the other: its model did not write that. These
 * are the prompts, or of a chat the last message. What follows one that is missing stays.
 */
export function withoutEcho(text: string, body: Uint8Array, times: number): string {
  const { prompt, messages } = JSON.parse(asBuffer(body).toString('utf8')) as Record<string, unknown>;
  const last = Array.isArray(messages) ? messages.at(-1) : undefined;
  const own: string[] = [];
  let position = 0;
  for (const repeated of isObject(last) ? [last.content] : [prompt].flat()) {
    if (typeof repeated !== 'string' || repeated === '') continue;
    for (let time = 0; time < times; time += 1) {
      const found = text.indexOf(repeated, position);
      if (found === -1) return own.join('') + text.slice(position);
      own.push(text.slice(position, found));
      position = found + repeated.length;
    }
  }
  return own.join('') + text.slice(position);
}

/** What a message says and which tools it calls with what, but nothing of the media in it. */
function collectMessage(message: Record<string, unknown>, words: string[]): void {
  // vLLM writes reasoning under its old name as well.
  const reasoning = message.reasoning || message.reasoning_content;
  for (const part of [message.content, reasoning, message.refusal]) {
    collectContent(part, words);
  }
  for (const call of [message.tool_calls, { function: message.function_call }].flat()) {
    // Only these parts; the model did not write its id and type.
    if (isObject(call)) for (const part of [call.function, call.custom]) collect(part, words);
  }
}

/** A text, or parts of which some are texts. */
function collectContent(value: unknown, words: string[]): void {
  if (typeof value === 'string') words.push(value);
  else if (Array.isArray(value)) for (const item of value) collectContent(item, words);
  else if (isObject(value)) for (const name of wordsOfParts) collectContent(value[name], words);
}

/** All strings within a value that has no media. */
function collect(value: unknown, words: string[]): void {
  if (typeof value === 'string') words.push(value);
  else if (Array.isArray(value)) for (const item of value) collect(item, words);
  else if (isObject(value)) for (const member of Object.values(value)) collect(member, words);
}

/** The length of `[1, 2, …]`, or of all in `[[1, 2], …]`. */
function tokensGiven(value: unknown): number {
  if (!Array.isArray(value)) return 0;
  return value.reduce<number>((sum, item) => sum + (typeof item === 'number' ? 1 : tokensGiven(item)), 0);
}
