import { numberOrText } from '../../format/number.ts';

export type Message = { role: 'system' | 'user' | 'assistant'; content: string };

/** What the model is sent, in whatever way its answer is to come. */
export type ChatRequest = {
  model: string;
  messages: readonly Message[];
  temperature?: number | string;
  max_tokens?: number | string;
};

/** What the fields beside the conversation say; empty where they say nothing. */
export type ChatSettings = { model: string; system: string; temperature: string; maxTokens: string };

/** The request that a conversation makes, of which the last message is the user's. */
export function requestOf(
  history: readonly Message[],
  { model, system, temperature, maxTokens }: ChatSettings,
): ChatRequest {
  const messages: Message[] = [
    ...(system.trim() === '' ? [] : [{ role: 'system' as const, content: system.trim() }]),
    // An answer that was stopped before its first word is none, and upstreams refuse an empty one.
    ...history.filter(({ content }) => content !== '').map(({ role, content }) => ({ role, content })),
  ];
  return {
    model,
    messages,
    ...(temperature === '' ? {} : { temperature: numberOrText(temperature) }),
    ...(maxTokens === '' ? {} : { max_tokens: numberOrText(maxTokens) }),
  };
}

/** A conversation as it will be once a message is sent or, if none is written, as it was when its last one was. */
export function asked<Said extends Message>(turns: readonly Said[], unsent: string): readonly (Said | Message)[] {
  if (unsent.trim() !== '') return [...turns, { role: 'user', content: unsent.trim() }];
  return turns.slice(0, lastOfUser(turns) + 1);
}

/** Where the user's last message is; -1 if there is none. */
export const lastOfUser = (turns: readonly Message[]): number => turns.findLastIndex(({ role }) => role === 'user');
