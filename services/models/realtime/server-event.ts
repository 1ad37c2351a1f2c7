import { errorCode, typeOf } from '#shared/error-table.ts';
import type { GatewayError } from '#shared/errors.ts';
import { prefixedId } from '#shared/ids.ts';

/** An event to a client, without its id. */
export type ServerEvent = { type: string; [field: string]: unknown };

export const newItemId = (): string => prefixedId('item_');
export const newSessionId = (): string => prefixedId('sess_');

/** An event as JSON; each has an id of its own (openai-contract.md section 5). */
export const eventJson = ({ type, ...fields }: ServerEvent): string =>
  JSON.stringify({ type, event_id: prefixedId('event_'), ...fields });

/** An error's members as they appear in events. */
const errorFields = (error: GatewayError) => ({
  type: typeOf(error),
  code: errorCode(error),
  message: error.message,
  param: error.details.param ?? null,
});

/** An `error` event, after which the session goes on. `causeId` is the id of the client's event that caused it. */
export const errorEvent = (error: GatewayError, causeId: string | null): ServerEvent => ({
  type: 'error',
  error: { ...errorFields(error), event_id: causeId },
});

const transcriptionEvent = 'conversation.item.input_audio_transcription';

export const deltaEvent = (itemId: string, delta: string): ServerEvent => ({
  type: `${transcriptionEvent}.delta`,
  item_id: itemId,
  content_index: 0,
  delta,
});

export const completedEvent = (itemId: string, transcript: string, usage: object): ServerEvent => ({
  type: `${transcriptionEvent}.completed`,
  item_id: itemId,
  content_index: 0,
  transcript,
  usage,
});

export const failedEvent = (itemId: string, error: GatewayError): ServerEvent => ({
  type: `${transcriptionEvent}.failed`,
  item_id: itemId,
  content_index: 0,
  error: errorFields(error),
});

/** The events that make an utterance an item of the conversation. */
export function itemEvents(itemId: string, previousItemId: string | null): ServerEvent[] {
  const item = {
    id: itemId,
    object: 'realtime.item',
    type: 'message',
    status: 'completed',
    role: 'user',
    content: [{ type: 'input_audio', transcript: null }],
  };
  return [
    { type: 'input_audio_buffer.committed', previous_item_id: previousItemId, item_id: itemId },
    { type: 'conversation.item.added', previous_item_id: previousItemId, item },
    { type: 'conversation.item.done', previous_item_id: previousItemId, item },
  ];
}
