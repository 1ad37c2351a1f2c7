import { isObject } from '#shared/is-object.ts';
import { Refusal } from './answer.ts';
import type { Call } from './call.ts';
import type { ChatPrompt } from './chat-prompt.ts';
import type { ToolCall } from './chat-tools.ts';
import type { JsonObject } from './fields.ts';
import { checkListed, logprobsOf, type TokenLogprob } from './logprobs.ts';
import { cutAtStop, excerpt, replyText } from './reply.ts';
import { valueForSchema } from './schema-value.ts';

/** One of the answer's choices, complete. */
export type ChatChoice = {
  /** null when the choice only calls tools. */
  content: string | null;
  toolCalls: ToolCall[];
  finishReason: 'stop' | 'length' | 'tool_calls' | 'function_call';
  tokens: number;
  /** The tokens of the content; null when they were not asked for, or there is none. */
  logprobs: TokenLogprob[] | null;
};

type ChoiceRequest = {
  /** How many choices the answer has. */
  n: number;
  prompt: ChatPrompt;
  /** The same in all choices, like `jsonText`: making them anew would take as many times as long. */
  calls: readonly ToolCall[];
  /** The text of a JSON answer; null when text was asked for. */
  jsonText: string | null;
  stop: string[];
  tokensMax: number;
  /** How many candidates to list in the place of each token; null when no tokens are to be listed. */
  topLogprobs: number | null;
};

/** Says what the request asks for: tool calls, JSON, or text. */
export async function makeChoice({ tokens }: Call, request: ChoiceRequest, choice: number): Promise<ChatChoice> {
  const { prompt, calls, tokensMax, topLogprobs } = request;
  if (calls.length === 0) {
    const full = request.jsonText ?? replyText({ prompt: prompt.lastUserText, toolResult: prompt.toolResult, choice });
    const said = await tokens.first(cutAtStop(full, request.stop), tokensMax);
    if (topLogprobs !== null) checkListed(request.n * said.tokens, topLogprobs, 'top_logprobs');
    return {
      content: said.text,
      toolCalls: [],
      finishReason: said.whole ? 'stop' : 'length',
      tokens: said.tokens,
      logprobs: topLogprobs === null ? null : await logprobsOf(tokens, said.text, topLogprobs),
    };
  }
  const finishReason = calls[0]?.type === 'function_call' ? 'function_call' : 'tool_calls';
  const made: ChatChoice = { content: null, toolCalls: [], finishReason, tokens: 0, logprobs: null };
  for (const call of calls) {
    const input = await tokens.first(call.input, tokensMax - made.tokens);
    made.toolCalls.push({ ...call, input: input.text });
    made.tokens += input.tokens;
    if (!input.whole) {
      made.finishReason = 'length';
      break;
    }
  }
  return made;
}

/** The text of a JSON answer; null when text was asked for. */
export function jsonTextFor(json: JsonObject, prompt: ChatPrompt): string | null {
  const format = json.response_format ?? undefined;
  if (format === undefined) return null;
  switch (isObject(format) ? format.type : undefined) {
    case 'text':
      return null;
    case 'json_object':
      return JSON.stringify({ sandbox: true, prompt: excerpt(prompt.lastUserText) });
    case 'json_schema': {
      const { json_schema: named } = format as JsonObject;
      if (isObject(named) && isObject(named.schema)) return JSON.stringify(valueForSchema(named.schema));
      throw new Refusal("Missing required parameter: 'response_format.json_schema.schema'.", {
        param: 'response_format.json_schema.schema',
      });
    }
    default:
      throw new Refusal("Invalid value for 'response_format.type'.", {
        param: 'response_format.type',
        code: 'invalid_value',
      });
  }
}
