/** How one request is answered; an empty behaviour is a faultless upstream that answers at once. */
export type Behaviour = {
  /** Before the response head, in milliseconds. */
  headDelayMs?: number;
  /** Before each chunk of a stream, in milliseconds. */
  chunkDelayMs?: number;
  /** Waits for a promise of the test before the head, or before the chunk after `afterChunks`. */
  hold?: { until: Promise<unknown>; afterChunks?: number };
  /** Output tokens of each choice; the request's max_tokens may lower it. Default: 16. */
  tokens?: number;
  /** Input tokens, instead of `promptTokensOf`. */
  promptTokens?: number;
  cachedTokens?: number;
  /** Answers with this instead of success: an error, a redirect, an HTML page. A null `contentType` means none. */
  instead?: { status: number; body?: unknown; contentType?: string | null; headers?: Record<string, string> };
  /** Breaks the answer: before its head, or after `afterChunks` chunks of a stream or half of a body. */
  fault?: { kind: FaultKind; afterChunks?: number };
  /**
   * Where a stream's usage is: as the request asked (default), always at the end, nowhere, cumulative in each chunk (vLLM's continuous
   * stats), or zeroes in each chunk and the truth at the end. A body has it unless `absent`.
   */
  usage?: 'as-asked' | 'always' | 'absent' | 'each-chunk' | 'zeroes-first';
  /** Reports these numbers whatever it generated, e.g. zero. */
  usageReported?: { prompt_tokens: number; completion_tokens: number };
  dialect?: Dialect;
  /** Answers whole, though asked for a stream. */
  whole?: boolean;
  /** Adds this much text to the answer, or base64 to each image of a stream. */
  paddingBytes?: number;
  /** Sends the body in pieces of `bytes`, `delayMs` apart. */
  trickle?: { bytes: number; delayMs: number };
  headers?: Record<string, string>;
};

export type FaultKind =
  /** RST. */
  | 'reset'
  /** The connection is closed in the middle of the answer. */
  | 'cut'
  /** Nothing more comes, but the connection stays. */
  | 'hang'
  /** FIN from the simulator, which still reads. */
  | 'half-close'
  /** Bytes that are not HTTP. */
  | 'garbage'
  /** Events that an OpenAI client cannot read, in correct HTTP. Streams only. */
  | 'bad-sse'
  /** A correct end of the HTTP answer, with no finish_reason and no [DONE] before it. Streams only. */
  | 'early-end'
  /** An `error: {…}` line as from old llama.cpp builds, then the end. Streams only. */
  | 'error-line';

/** Whose quirks the answer has (openai-contract.md, section 4). */
type Dialect = 'openai' | 'vllm' | 'llama.cpp' | 'ollama' | 'localai';

const html502 = '<html><head><title>502 Bad Gateway</title></head><body><center>nginx</center></body></html>';
const failure = (message: string, type: string, code: unknown) => ({ error: { message, type, param: null, code } });

/** Behaviours by name, for a marker in the request: metadata.sim = "html-502", or a model name that ends in "@html-502". */
export const namedBehaviours = {
  plain: {},
  huge: { paddingBytes: 8 * 1024 * 1024 },
  'hang-before-head': { fault: { kind: 'hang' } },
  'hang-in-stream': { fault: { kind: 'hang', afterChunks: 3 } },
  'reset-before-head': { fault: { kind: 'reset' } },
  'reset-in-stream': { fault: { kind: 'reset', afterChunks: 3 } },
  'cut-in-stream': { fault: { kind: 'cut', afterChunks: 3 } },
  'half-close': { fault: { kind: 'half-close', afterChunks: 3 } },
  'garbage-head': { fault: { kind: 'garbage' } },
  'garbage-in-stream': { fault: { kind: 'garbage', afterChunks: 3 } },
  'bad-sse': { fault: { kind: 'bad-sse', afterChunks: 3 } },
  'early-end': { fault: { kind: 'early-end', afterChunks: 3 } },
  'error-line': { fault: { kind: 'error-line', afterChunks: 3 }, dialect: 'llama.cpp' },
  'html-502': { instead: { status: 502, body: html502, contentType: 'text/html' } },
  redirect: { instead: { status: 307, headers: { location: 'http://127.0.0.1:1/elsewhere' } } },
  'rate-limited': {
    instead: {
      status: 429,
      headers: { 'retry-after': '7' },
      body: failure('Rate limit reached', 'requests', 'rate_limit_exceeded'),
    },
  },
  'server-error': { instead: { status: 500, body: failure('The server had an error', 'server_error', null) } },
  overloaded: { instead: { status: 503, body: failure('Loading model', 'unavailable_error', 503) } },
  'vllm-error': {
    instead: {
      status: 400,
      body: failure("This model's maximum context length is 4096 tokens.", 'BadRequestError', 400),
    },
  },
  'llama-error': {
    instead: {
      status: 400,
      body: {
        error: {
          code: 400,
          message: 'the request exceeds the available context size',
          type: 'exceed_context_size_error',
        },
      },
    },
  },
  unauthorized: {
    instead: { status: 401, body: failure('Incorrect API key', 'invalid_request_error', 'invalid_api_key') },
  },
  'no-usage': { usage: 'absent' },
  'zero-usage': { usage: 'always', usageReported: { prompt_tokens: 0, completion_tokens: 0 } },
  'continuous-usage': { usage: 'each-chunk', dialect: 'vllm' },
  'zeroes-first': { usage: 'zeroes-first' },
  whole: { whole: true },
  ollama: { dialect: 'ollama' },
  localai: { dialect: 'localai' },
} as const satisfies Record<string, Behaviour>;

export type BehaviourName = keyof typeof namedBehaviours;

/** A behaviour itself, or one by its name. Throws for an unknown name, since with a misspelt fault a test would pass. */
export function behaviourOf(given: Behaviour | string): Behaviour {
  if (typeof given !== 'string') return given;
  if (given.startsWith('{')) return JSON.parse(given) as Behaviour;
  const named: Behaviour | undefined = (namedBehaviours as Record<string, Behaviour>)[given];
  if (named === undefined) throw new Error(`the simulator knows no behaviour "${given}"`);
  return named;
}
