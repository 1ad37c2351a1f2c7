/** Operations as people read them; unknown ones are shown as they are. */
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

/** One spelling for `chat.completions`, `chat/completions` and `chat_completions`. */
export const operationKey = (operation: string): string => operation.toLowerCase().replace(/[^a-z]+/g, '_');

export const operationName = (operation: string): string => names[operationKey(operation)] ?? operation;
