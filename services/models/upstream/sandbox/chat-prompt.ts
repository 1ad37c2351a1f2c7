import { isObject } from '#shared/is-object.ts';
import { Refusal } from './answer.ts';
import type { Call } from './call.ts';
import { countWithin } from './text-limits.ts';

/** What the sandbox reads out of `messages`. */
export type ChatPrompt = {
  /** The text of the last user message. */
  lastUserText: string;
  /** The text of the last message, when a tool sent it; else empty. */
  toolResult: string;
  tokens: number;
};

/** Tokens around each message and before the answer, as OpenAI's chat format has them. */
const tokensPerMessage = 3;
const tokensOfAnswerStart = 3;
/** Images, audio and files in a message count as this many tokens each. */
const tokensPerAttachment = 85;

/** Reads and counts the messages, and refuses a prompt that leaves no room in the context window. */
export async function readChatPrompt({ json, model, tokens }: Call): Promise<ChatPrompt> {
  const messages = json.messages;
  if (!Array.isArray(messages) || messages.length === 0) {
    throw new Refusal("Invalid value for 'messages': expected an array of at least one message.", {
      param: 'messages',
      code: 'invalid_value',
    });
  }
  const prompt: ChatPrompt = { lastUserText: '', toolResult: '', tokens: tokensOfAnswerStart };
  const count = async (text: string) => {
    const counted = await countWithin(tokens, text, model.contextWindowTokens);
    prompt.tokens += counted;
  };
  for (const [index, message] of messages.entries()) {
    const { role, text, attachments } = readMessage(message, index);
    prompt.tokens += tokensPerMessage + attachments * tokensPerAttachment;
    await count(role);
    await count(text);
    if (typeof message.name === 'string') await count(message.name);
    for (const calls of [message.tool_calls, message.function_call]) {
      if (isObject(calls) || Array.isArray(calls)) await count(JSON.stringify(calls));
    }
    prompt.toolResult = role === 'tool' || role === 'function' ? text : '';
    if (role === 'user') prompt.lastUserText = text;
  }
  for (const offered of [json.tools, json.functions]) {
    if (Array.isArray(offered) && offered.length > 0) await count(JSON.stringify(offered));
  }
  return prompt;
}

function readMessage(message: unknown, index: number): { role: string; text: string; attachments: number } {
  const path = `messages[${index}]`;
  if (!isObject(message) || typeof message.role !== 'string' || message.role === '') {
    throw new Refusal(`Missing required parameter: '${path}.role'.`, { param: `${path}.role` });
  }
  const { role, content } = message;
  if (content === undefined || content === null) return { role, text: '', attachments: 0 };
  if (typeof content === 'string') return { role, text: content, attachments: 0 };
  if (!Array.isArray(content) || !content.every(isObject)) {
    throw new Refusal(`Invalid value for '${path}.content': expected a string or an array of parts.`, {
      param: `${path}.content`,
      code: 'invalid_value',
    });
  }
  const texts = content.map((part) => part.text ?? part.refusal).filter((text) => typeof text === 'string');
  return { role, text: texts.join('\n'), attachments: content.length - texts.length };
}
