import fc from 'fast-check';
import { weighing } from '../random-histories.ts';

/** An answer without a fault, in some of the ways in which upstreams give it. */
const sound = fc.record({
  tokens: fc.constantFrom(1, 3, 40),
  usage: fc.constantFrom('as-asked', 'always', 'absent', 'each-chunk', 'zeroes-first'),
  dialect: fc.constantFrom('openai', 'openai', 'vllm', 'llama.cpp', 'ollama', 'localai'),
  whole: fc.constantFrom(false, false, false, true),
  cachedTokens: fc.constantFrom(undefined, 0, 2),
  paddingBytes: fc.constantFrom(0, 0, 30_000),
  headDelayMs: fc.constantFrom(0, 5),
  chunkDelayMs: fc.constantFrom(undefined, undefined, 1),
  trickle: fc.constantFrom(undefined, undefined, { bytes: 5_000, delayMs: 1 }, { bytes: 97, delayMs: 0 }),
});

const kinds = ['reset', 'cut', 'half-close', 'garbage', 'hang', 'bad-sse', 'early-end', 'error-line'] as const;
const broken = fc
  .record({
    answer: sound,
    kind: fc.constantFrom(...kinds),
    afterChunks: fc.constantFrom(undefined, 0, 1, 3, 10),
  })
  .map(({ answer, ...fault }) => ({ ...answer, whole: false, fault }));

const refused = fc.constantFrom(
  ...(['server-error', 'overloaded', 'html-502', 'redirect', 'unauthorized', 'vllm-error', 'llama-error'] as const),
);

/** How one attempt is answered. */
const behaviour = fc.oneof(weighing(8, sound), weighing(4, broken), weighing(3, refused));

/** One call: how its upstreams answer it, and whether its client waits for that. */
const call = fc.record({
  operation: fc.constantFrom(
    ...(['chat', 'chat', 'completions', 'embeddings', 'images', 'speech', 'transcriptions', 'translations'] as const),
  ),
  streamed: fc.boolean(),
  asksForUsage: fc.boolean(),
  prefix: fc.constantFrom('/v1', '/api/v1'),
  answers: fc.constantFrom(1, 1, 2),
  tokensMax: fc.constantFrom(null, 5),
  attempts: fc.tuple(behaviour, behaviour),
  /** When the client leaves: once its upstream has the call, or after this many bytes of the answer. */
  leaves: fc.oneof(
    weighing(8, fc.constant(null)),
    weighing(1, fc.constant('asked' as const)),
    weighing(1, fc.constantFrom(1, 300, 10_000)),
  ),
});

/** Calls made at the same moment. */
export const calls = fc.array(call, { minLength: 1, maxLength: 4 });

export type Call = typeof call extends fc.Arbitrary<infer One> ? One : never;
