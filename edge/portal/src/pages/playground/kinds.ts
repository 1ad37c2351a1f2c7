import type { Model } from '../../api/types.ts';

/** What the playground does with a model, by the operations for each. */
export const kinds = {
  chat: ['chat_completions'],
  transcribe: ['realtime_transcription', 'audio_transcriptions'],
} as const;

export type Kind = keyof typeof kinds;

export const fits = (model: Pick<Model, 'operations'>, kind: Kind): boolean =>
  model.operations.some((one) => (kinds[kind] as readonly string[]).includes(one));
