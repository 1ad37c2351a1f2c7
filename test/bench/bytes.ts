/**
 * CPU time of the byte code in the hot path, in µs per operation: `node test/bench/bytes.ts`. The best of several batches, since other load
 * on the machine only adds time.
 */
import { stdout } from 'node:process';
import { ChatStream } from '../../services/models/bytes/chat-stream.ts';
import { fieldSet, scanObject } from '../../services/models/bytes/json-scan.ts';
import { includeUsageEdit, spliceMembers } from '../../services/models/bytes/splice.ts';

/** Batches take at least this long, since the kernel counts CPU time in ticks of some milliseconds. */
const batchUs = 100_000;

/** `parts` is how many of the measured things one operation does. */
function measure(name: string, operation: () => unknown, parts = 1): void {
  let rounds = 1;
  while (timeOf(rounds, operation) < batchUs) rounds *= 2;
  const timesUs = Array.from({ length: 7 }, () => timeOf(rounds, operation));
  stdout.write(`${name.padEnd(58)} ${(Math.min(...timesUs) / rounds / parts).toFixed(2).padStart(8)} µs\n`);
}

function timeOf(rounds: number, operation: () => unknown): number {
  const start = process.threadCpuUsage().user;
  for (let round = 0; round < rounds; round += 1) operation();
  return process.threadCpuUsage().user - start;
}

/** Prose with a line break every 80 characters and some quotes, as JSON escapes them; or with neither if `plain`. */
function prose(length: number, plain: boolean): string {
  const words = 'the quick brown fox jumps over a lazy dog and then some more of "it", said he'.split(' ');
  let text = '';
  for (let word = 0; text.length < length; word += 1) {
    text += words[(word * 7 + (word % 3)) % words.length] + (word % 16 === 15 ? '\n' : ' ');
  }
  return plain ? text.replaceAll('"', '').replaceAll('\n', ' ') : text;
}

const request = (promptLength: number, plain = false): Buffer =>
  Buffer.from(
    JSON.stringify({
      model: 'meta/llama-3.3-70b',
      messages: [
        { role: 'system', content: 'You are a helpful assistant.' },
        { role: 'user', content: prose(promptLength, plain) },
      ],
      temperature: 0.7,
      max_tokens: 256,
      stream: true,
      stream_options: { include_usage: false },
    }),
  );
const conversation = Buffer.from(
  JSON.stringify({
    model: 'meta/llama-3.3-70b',
    messages: Array.from({ length: 400 }, () => ({ role: 'user', content: prose(200, false) })),
  }),
);
const fields = fieldSet(
  'model',
  'stream',
  'stream_options',
  'n',
  'max_tokens',
  'max_completion_tokens',
  'best_of',
  'background',
  'encoding_format',
  'response_format',
);

for (const [name, body] of [
  ['request of 1 KB', request(800)],
  ['request of 100 KB, prose with escapes', request(98_000)],
  ['request of 100 KB, prose without', request(98_000, true)],
  ['request of 100 KB, 400 messages', conversation],
] as const) {
  measure(`${name}: scanObject`, () => scanObject(body, fields));
  measure(`${name}: JSON.parse`, () => JSON.parse(body.toString()));
}

const spliceBody = scanObject(request(800), fields);
if (typeof spliceBody === 'string') throw new Error(spliceBody);
measure('request of 1 KB: model and include_usage set', () =>
  spliceMembers(spliceBody, [['model', '"llama-3.3-70b-instruct"'], includeUsageEdit(spliceBody)!]),
);

/** A stream of 200 deltas, as OpenAI and vLLM write them, or with what Ollama leaves to be corrected. */
const deltas = (id: string, more: object): Buffer[] =>
  Array.from({ length: 200 }, (_, index) => {
    const delta = index === 0 ? { role: 'assistant', content: '' } : { ...more, content: ' word' };
    const choices = [{ index: 0, delta, logprobs: null, finish_reason: index === 199 ? 'stop' : null }];
    const head = { id, object: 'chat.completion.chunk', created: 1741570283, model: 'meta/llama-3.3-70b' };
    return Buffer.from(`data: ${JSON.stringify({ ...head, choices })}\n\n`);
  });
const right = deltas('chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG', {});
const sloppy = deltas('chatcmpl-12', { role: 'assistant' });

function stream(chunks: readonly Buffer[], includeUsage: boolean): void {
  const filter = new ChatStream({
    operation: 'chat',
    includeUsage,
    mintId: () => 'chatcmpl-minted',
    createdSeconds: 1,
    model: 'acme/large',
    answers: 1,
  });
  for (const chunk of chunks) filter.push(chunk);
  filter.end(false);
}
stdout.write(`\nServer-sent events of ${right[1]!.length} bytes, per event:\n`);
for (const [name, chunks, includeUsage] of [
  ['right already, one a chunk', right, false],
  ['right already, all in one chunk', [Buffer.concat(right)], false],
  ['usage:null put in', right, true],
  ['id replaced and role taken out', sloppy, false],
] as const) {
  measure(name, () => stream(chunks, includeUsage), 200);
}
measure(
  'JSON.parse and JSON.stringify of each, for comparison',
  () => {
    for (const chunk of right) Buffer.from(`data: ${JSON.stringify(JSON.parse(chunk.toString('utf8', 6)))}\n\n`);
  },
  200,
);
