import type { MessageInitShape } from '@bufbuild/protobuf';
import type { PriceRatesSchema } from '#gen/modelgateway/models/v1/model_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';

/** The address under which the catalog lists the sandbox's models; nothing is ever sent there. */
export const sandboxBaseUrl = 'sandbox://local';

/** One model of the sandbox, with everything that the catalog wants to know about it. */
export type SandboxModel = {
  /** The upstream's own name, and the suggested name in the catalog. */
  id: string;
  displayName: string;
  operations: readonly Operation[];
  /** 0 where tokens are not the measure. */
  contextWindowTokens: number;
  outputTokensMax: number;
  /** What a transcription's `usage` counts. */
  audioUsage: 'duration' | 'tokens';
  /** Its default price; measures which are left out cost nothing. It is invented, in the range of hosted models. */
  price: MessageInitShape<typeof PriceRatesSchema>;
};

const text = { operations: [Operation.CHAT_COMPLETIONS, Operation.COMPLETIONS], audioUsage: 'duration' } as const;
const listening = {
  operations: [Operation.AUDIO_TRANSCRIPTIONS, Operation.AUDIO_TRANSLATIONS, Operation.REALTIME_TRANSCRIPTION],
  contextWindowTokens: 0,
  outputTokensMax: 0,
} as const;

/** The models of the sandbox, for discovery and for the bootstrap that registers them. */
export const sandboxModels: readonly SandboxModel[] = [
  {
    ...text,
    id: 'sandbox-chat',
    displayName: 'Sandbox Chat',
    contextWindowTokens: 131_072,
    outputTokensMax: 16_384,
    price: {
      inputPerMillionNanoUsd: 2_500_000_000n,
      cachedInputPerMillionNanoUsd: 1_250_000_000n,
      outputPerMillionNanoUsd: 10_000_000_000n,
    },
  },
  {
    ...text,
    id: 'sandbox-chat-mini',
    displayName: 'Sandbox Chat Mini',
    contextWindowTokens: 16_384,
    outputTokensMax: 4_096,
    price: {
      inputPerMillionNanoUsd: 150_000_000n,
      cachedInputPerMillionNanoUsd: 75_000_000n,
      outputPerMillionNanoUsd: 600_000_000n,
    },
  },
  {
    id: 'sandbox-embed',
    displayName: 'Sandbox Embed',
    operations: [Operation.EMBEDDINGS],
    contextWindowTokens: 8_192,
    outputTokensMax: 0,
    audioUsage: 'duration',
    price: { inputPerMillionNanoUsd: 20_000_000n },
  },
  {
    id: 'sandbox-image',
    displayName: 'Sandbox Image',
    operations: [Operation.IMAGES_GENERATIONS],
    contextWindowTokens: 8_192,
    outputTokensMax: 0,
    audioUsage: 'duration',
    price: { perImageNanoUsd: 20_000_000n },
  },
  {
    ...listening,
    id: 'sandbox-transcribe',
    displayName: 'Sandbox Transcribe',
    audioUsage: 'duration',
    price: { perAudioSecondNanoUsd: 100_000n },
  },
  {
    ...listening,
    id: 'sandbox-transcribe-mini',
    displayName: 'Sandbox Transcribe Mini (counts tokens)',
    audioUsage: 'tokens',
    price: { inputPerMillionNanoUsd: 1_250_000_000n, outputPerMillionNanoUsd: 5_000_000_000n },
  },
  {
    id: 'sandbox-speech',
    displayName: 'Sandbox Speech',
    operations: [Operation.AUDIO_SPEECH],
    contextWindowTokens: 0,
    outputTokensMax: 0,
    audioUsage: 'duration',
    price: { perMillionCharactersNanoUsd: 15_000_000_000n },
  },
];
