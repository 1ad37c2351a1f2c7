import { type Answer, jsonAnswer, Refusal, sseContentType, streamAnswer } from './answer.ts';
import type { Call } from './call.ts';
import { type ChatChoice, jsonTextFor, makeChoice } from './chat-choice.ts';
import { readChatPrompt } from './chat-prompt.ts';
import { chatChunks } from './chat-stream.ts';
import { readTools, toolCallsFor, wireCalls } from './chat-tools.ts';
import { flagField, includesUsage, integerField, type JsonObject, stopField } from './fields.ts';
import { checkContext, outputLimit } from './text-limits.ts';
import { textUsage } from './text-usage.ts';

/** POST /chat/completions. */
export async function chatCompletions(call: Call): Promise<Answer> {
  const { json, model } = call;
  const stream = flagField(json, 'stream');
  const n = integerField(json, 'n', 1, 128) ?? 1;
  const stop = stopField(json);
  const topLogprobs = readTopLogprobs(json);
  const tools = readTools(json);
  const limitField = json.max_completion_tokens == null ? 'max_tokens' : 'max_completion_tokens';
  const asked = integerField(json, limitField, 1, Number.MAX_SAFE_INTEGER);
  const tokensMax = outputLimit(asked, model.outputTokensMax, limitField);

  const prompt = await readChatPrompt(call);
  checkContext(model.contextWindowTokens, prompt.tokens, asked ?? 1, 'messages');
  const calls = toolCallsFor(json, tools, prompt.lastUserText, prompt.toolResult !== '');
  const jsonText = calls.length === 0 ? jsonTextFor(json, prompt) : null;
  const choices: ChatChoice[] = [];
  while (choices.length < n) {
    choices.push(await makeChoice(call, { n, prompt, calls, jsonText, stop, tokensMax, topLogprobs }, choices.length));
  }
  const usage = textUsage(
    prompt.tokens,
    choices.reduce((sum, choice) => sum + choice.tokens, 0),
  );
  const head = {
    id: `chatcmpl-${call.id}`,
    object: stream ? 'chat.completion.chunk' : 'chat.completion',
    created: call.created,
    model: model.id,
    system_fingerprint: 'fp_sandbox',
  };
  if (stream) {
    return streamAnswer(sseContentType, chatChunks(head, choices, includesUsage(json) ? usage : null, call.id));
  }
  return jsonAnswer({ ...head, choices: choices.map((choice, i) => wholeChoice(choice, i, call.id)), usage });
}

const wholeChoice = (choice: ChatChoice, index: number, id: string) => ({
  index,
  message: {
    role: 'assistant',
    content: choice.content,
    refusal: null,
    ...wireCalls(choice.toolCalls, id, index),
  },
  logprobs: choice.logprobs && { content: choice.logprobs, refusal: null },
  finish_reason: choice.finishReason,
});

function readTopLogprobs(json: JsonObject): number | null {
  const top = integerField(json, 'top_logprobs', 0, 20);
  if (flagField(json, 'logprobs')) return top ?? 0;
  if (top === undefined) return null;
  throw new Refusal("'top_logprobs' needs 'logprobs' to be true.", { param: 'top_logprobs', code: 'invalid_value' });
}
