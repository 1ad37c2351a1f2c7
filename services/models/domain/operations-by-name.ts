import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';

const guesses: readonly { pattern: RegExp; operations: readonly Operation[] }[] = [
  { pattern: /embed|bge-|e5-|gte-/i, operations: [Operation.EMBEDDINGS] },
  {
    pattern: /whisper|transcri/i,
    operations: [Operation.AUDIO_TRANSCRIPTIONS, Operation.AUDIO_TRANSLATIONS, Operation.REALTIME_TRANSCRIPTION],
  },
  { pattern: /tts|speech|kokoro/i, operations: [Operation.AUDIO_SPEECH] },
  { pattern: /image|dall-e|flux|stable-diffusion|sdxl/i, operations: [Operation.IMAGES_GENERATIONS] },
];

/** What a model that an upstream lists most likely answers: a model list says no more than names. An operator can correct it. */
export const operationsByName = (name: string): readonly Operation[] =>
  guesses.find(({ pattern }) => pattern.test(name))?.operations ?? [Operation.CHAT_COMPLETIONS, Operation.COMPLETIONS];
