import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';

/** The operations of a model whose kind, in the upstream's list, matches `kind`, or else whose name matches `name`. */
const guesses: readonly { kind: RegExp; name?: RegExp; operations: readonly Operation[] }[] = [
  {
    kind: /^(chat|language|code|llm|completion|text-generation)$/i,
    operations: [Operation.CHAT_COMPLETIONS, Operation.COMPLETIONS],
  },
  {
    kind: /^(embed|embeddings?|feature-extraction|sentence-similarity)$/i,
    name: /embed|bge-|e5-|gte-|minilm|mpnet/i,
    operations: [Operation.EMBEDDINGS],
  },
  {
    kind: /^(automatic-speech-recognition|transcribe|transcriptions?)$/i,
    name: /whisper|transcri/i,
    operations: [Operation.AUDIO_TRANSCRIPTIONS, Operation.AUDIO_TRANSLATIONS, Operation.REALTIME_TRANSCRIPTION],
  },
  { kind: /^(text-to-speech|tts|speech)$/i, name: /tts|speech|kokoro/i, operations: [Operation.AUDIO_SPEECH] },
  {
    kind: /^(image|text-to-image)$/i,
    name: /image|dall-e|flux|stable-diffusion|sdxl/i,
    operations: [Operation.IMAGES_GENERATIONS],
  },
];

/**
 * The most likely operations of a model that an upstream lists: few lists contain more than names. `kinds` are the words of those that do.
 * An operator can correct the guess.
 */
export function foundOperations(name: string, kinds: readonly string[]): readonly Operation[] {
  const told = guesses.find(({ kind }) => kinds.some((word) => kind.test(word)));
  const guess = told ?? guesses.find((one) => one.name?.test(name)) ?? guesses[0]!;
  return guess.operations;
}
