import type { OperationName } from '#shared/operations.ts';

/** The operations in words. One without words does not compile. */
const names: Readonly<Record<OperationName, string>> = {
  chat_completions: 'Chat',
  completions: 'Completions',
  embeddings: 'Embeddings',
  images_generations: 'Images',
  audio_transcriptions: 'Transcription',
  audio_translations: 'Translation',
  audio_speech: 'Speech',
  realtime_transcription: 'Realtime',
};

/** The operations that a model can have. */
export const operations = Object.keys(names);

/** An operation in words; one that a newer gateway names is shown as it is. */
export const operationName = (operation: string): string => names[operation as OperationName] ?? operation;
