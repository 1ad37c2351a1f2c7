import type { Model } from '../../api/types.ts';

/** What the playground does with a model, by the operations for each; with a model for several of them, the first. */
export const kinds = {
  chat: { name: 'Chat', operations: ['chat_completions'], missing: 'No chat model available' },
  images: { name: 'Images', operations: ['images_generations'], missing: 'No image model available' },
  speech: { name: 'Speech', operations: ['audio_speech'], missing: 'No speech model available' },
  transcribe: {
    name: 'Transcribe',
    operations: ['realtime_transcription', 'audio_transcriptions'],
    missing: 'No transcription model available',
  },
} as const;

export type Kind = keyof typeof kinds;
export const kindNames = Object.keys(kinds) as Kind[];

type WithOperations = Pick<Model, 'operations'>;

export const fits = (model: WithOperations, kind: Kind): boolean =>
  model.operations.some((one) => (kinds[kind].operations as readonly string[]).includes(one));

/** What to do with a model first; undefined if the playground has nothing for it. */
export const kindFor = (model: WithOperations): Kind | undefined => kindNames.find((kind) => fits(model, kind));
