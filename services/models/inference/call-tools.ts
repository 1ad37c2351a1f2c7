import type { Clock } from '#shared/clock.ts';
import { type AudioLengthReader, createAudioLengthReader } from '../audio/audio-length-reader.ts';
import { loadTokenizer, type Tokenizer, tokenizerOnDemand } from '../bytes/tokens.ts';
import { createLargeEmbeddings, type LargeEmbeddings } from './large-embeddings.ts';

/** Tools for reading requests and answers. */
export type CallTools = {
  clock: Clock;
  /** Counts tokens where an upstream did not. The vocabulary is loaded at the first call. */
  tokenizer(): Promise<Tokenizer>;
  /** Reads lengths of audio where an upstream did not tell them. */
  audioLengths: AudioLengthReader;
  largeEmbeddings: LargeEmbeddings;
  /** Ends their threads. */
  close(): Promise<void>;
};

export function createCallTools(clock: Clock, load = loadTokenizer): CallTools {
  const audioLengths = createAudioLengthReader();
  const largeEmbeddings = createLargeEmbeddings();
  return {
    clock,
    audioLengths,
    largeEmbeddings,
    tokenizer: tokenizerOnDemand(load),
    async close() {
      await audioLengths.close();
      await largeEmbeddings.close();
    },
  };
}
