import { numberOrText } from '../../format/number.ts';

export type Message = { role: 'system' | 'user' | 'assistant'; content: string };

type Part = { type: 'text'; text: string } | { type: 'image_url'; image_url: { url: string } };

/** What the model is sent, in whatever way its answer is to come. */
export type ChatRequest = {
  model: string;
  messages: readonly { role: Message['role']; content: string | readonly Part[] }[];
  temperature?: number | string;
  max_tokens?: number | string;
};

/** What the fields beside the conversation say; empty where they say nothing. */
export type ChatSettings = {
  model: string;
  system: string;
  temperature: string;
  maxTokens: string;
  /** Whether the model is shown the pictures that it drew: not each one that draws takes any. */
  sendsPictures: boolean;
};

/** A message that may be an answer with pictures, and whose answer it is. */
type Drawn = Message & { model?: string; images?: readonly string[] };

/**
 * The request that a conversation makes, of which the last message is the user's. The pictures that its model drew last, which take megabytes
 * and tokens each time, are shown to it by the message after them: within an answer hardly a server takes any.
 */
export function requestOf(
  history: readonly Drawn[],
  { model, system, temperature, maxTokens, sendsPictures }: ChatSettings,
): ChatRequest {
  const drawnAt = history.findLastIndex((turn) => sendsPictures && turn.model === model && picturesOf(turn).length > 0);
  const pictures = picturesOf(history[drawnAt]).map((url) => ({ type: 'image_url' as const, image_url: { url } }));
  const shownAt = history.findIndex(({ role }, index) => index > drawnAt && role === 'user');
  const messages = history.map(({ role, content }, index) =>
    pictures.length > 0 && index === shownAt
      ? { role, content: [{ type: 'text' as const, text: content }, ...pictures] }
      : { role, content },
  );
  return {
    model,
    messages: [
      ...(system.trim() === '' ? [] : [{ role: 'system' as const, content: system.trim() }]),
      // An answer that was stopped before its first word is none, and upstreams refuse an empty one.
      ...messages.filter(({ content }) => content !== ''),
    ],
    ...(temperature === '' ? {} : { temperature: numberOrText(temperature) }),
    ...(maxTokens === '' ? {} : { max_tokens: numberOrText(maxTokens) }),
  };
}

const picturesOf = (turn: Drawn | undefined): readonly string[] =>
  (turn?.images ?? []).filter((address) => /^(data:image\/|https?:)/.test(address));

/** A request without its pictures, which are too long to be read; the same one if it has none. */
export function withoutPictures(request: ChatRequest): ChatRequest {
  if (request.messages.every(({ content }) => typeof content === 'string')) return request;
  const messages = request.messages.map(({ role, content }) => ({
    role,
    content:
      typeof content === 'string' ? content : content.map((part) => (part.type === 'text' ? part.text : '')).join(''),
  }));
  return { ...request, messages };
}

/** A conversation as it will be once a message is sent or, if none is written, as it was when its last one was. */
export function asked<Said extends Message>(turns: readonly Said[], unsent: string): readonly (Said | Message)[] {
  if (unsent.trim() !== '') return [...turns, { role: 'user', content: unsent.trim() }];
  return turns.slice(0, lastOfUser(turns) + 1);
}

/** Where the user's last message is; -1 if there is none. */
export const lastOfUser = (turns: readonly Message[]): number => turns.findLastIndex(({ role }) => role === 'user');
