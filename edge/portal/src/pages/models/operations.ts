/** The operations in words; unknown ones are shown as they are. */
const names: Readonly<Record<string, string>> = {
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

export const operationName = (operation: string): string => names[operation] ?? operation;
