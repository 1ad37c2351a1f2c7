/** What an answer must be, or the whole run is worthless. */
export type Expected = {
  status: number;
  /** Text in the body, which contenders may rewrite with other spacing and order. */
  text: string;
  /** How often the text occurs; undefined: at least once. */
  times?: number;
  /** Whether the body is a stream of events that ends with `[DONE]`. */
  stream?: boolean;
};

export type BenchRequest = { path: string; body: string; expected: Expected };

export type Workload = {
  name: string;
  /** Its name in tables. */
  title: string;
  /** Sent in turn. */
  requests: readonly BenchRequest[];
  connections: number;
  /** The unit of its cost, and how many of them a request has. */
  unit: 'request' | 'chunk';
  unitsPerRequest: number;
  /** Only for contenders that check keys; each of them gets as many as --keys says. */
  manyKeys?: boolean;
  /** The pace is the upstream's, so no core is full and there is no rate at saturation. */
  paced?: boolean;
};

export const models = {
  small: 'bench-small',
  paced: 'bench-paced',
  bursts: 'bench-bursts',
  embed: 'bench-embed',
} as const;

/** Server-sent events of a streamed answer, before `[DONE]`. */
export const chunksPerStream = 100;
/** Tells upstream.ts to refuse a request with status 400. */
export const failureMark = 'This one must fail.';
/** Occur in answers of upstream.ts. */
export const marks = {
  answer: 'How can I help you today?',
  delta: ' word',
  failure: 'as it was asked to',
  vector: 'BENCHEND',
};

const fox = 'The quick brown fox jumps over the lazy dog. ';

function chat(model: string, prompt: string, expected: Expected): BenchRequest {
  const body = {
    model,
    messages: [
      { role: 'system', content: 'Answer briefly.' },
      { role: 'user', content: prompt },
    ],
    temperature: 0.7,
    max_tokens: 256,
    ...(expected.stream && { stream: true, stream_options: { include_usage: true } }),
  };
  return { path: '/v1/chat/completions', body: JSON.stringify(body), expected };
}

const answered: Expected = { status: 200, text: marks.answer, times: 1 };
const streamed: Expected = { status: 200, text: marks.delta, times: chunksPerStream - 3, stream: true };
const small = chat(models.small, fox.repeat(16), answered);
const failing = chat(models.small, failureMark + fox.repeat(16), { status: 400, text: marks.failure });
const embeddings: BenchRequest = {
  path: '/v1/embeddings',
  body: JSON.stringify({
    model: models.embed,
    input: Array.from({ length: 64 }, (_, index) => `${index}: ${fox}`),
    encoding_format: 'base64',
  }),
  expected: { status: 200, text: marks.vector, times: 64 },
};

const perRequest = { connections: 64, unit: 'request', unitsPerRequest: 1 } as const;
const perChunk = { unit: 'chunk', unitsPerRequest: chunksPerStream } as const;

export const workloads: readonly Workload[] = [
  { name: 'small', title: 'small chat', requests: [small], ...perRequest },
  {
    name: 'large',
    title: 'chat, prompt of 100 KB',
    requests: [chat(models.small, fox.repeat(2_222), answered)],
    ...perRequest,
  },
  {
    name: 'paced',
    title: 'streamed chat, paced',
    requests: [chat(models.paced, fox, streamed)],
    connections: 40,
    paced: true,
    ...perChunk,
  },
  {
    name: 'bursts',
    title: 'streamed chat, in bursts',
    requests: [chat(models.bursts, fox, streamed)],
    connections: 64,
    ...perChunk,
  },
  { name: 'embeddings', title: 'embeddings of 64 inputs', requests: [embeddings], ...perRequest },
  { name: 'errors', title: 'small chat, 20% refused', requests: [small, small, small, small, failing], ...perRequest },
  { name: 'keys', title: 'small chat, many keys', requests: [small], manyKeys: true, ...perRequest },
];
