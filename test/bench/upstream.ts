import { createServer } from 'node:http';

// An upstream that costs next to nothing: prepared bytes for a chat completion, and for streams of 100 chunks,
// at once (`bursts`) or one each 5 ms (`paced`), as the model's name says.

const completion = JSON.stringify({
  id: 'chatcmpl-benchmark-0123456789abcdef',
  object: 'chat.completion',
  created: 1_790_000_000,
  model: 'bench',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: 'Hello! How can I help you today?' },
      logprobs: null,
      finish_reason: 'stop',
    },
  ],
  usage: { prompt_tokens: 180, completion_tokens: 9, total_tokens: 189, prompt_tokens_details: { cached_tokens: 0 } },
});
const chunk = (delta: object, finish: string | null): string =>
  `data: ${JSON.stringify({
    id: 'chatcmpl-benchmark-0123456789abcdef',
    object: 'chat.completion.chunk',
    created: 1_790_000_000,
    model: 'bench',
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
  })}\n\n`;
const usageChunk = `data: ${JSON.stringify({
  id: 'chatcmpl-benchmark-0123456789abcdef',
  object: 'chat.completion.chunk',
  created: 1_790_000_000,
  model: 'bench',
  choices: [],
  usage: { prompt_tokens: 180, completion_tokens: 99, total_tokens: 279 },
})}\n\n`;

const first = Buffer.from(chunk({ role: 'assistant', content: '' }, null));
const middle = Buffer.from(chunk({ content: ' word' }, null));
const last = Buffer.from(`${chunk({}, 'stop')}${usageChunk}data: [DONE]\n\n`);
export const chunksPerStream = 100;
const pieces = [first, ...Array.from({ length: chunksPerStream - 2 }, () => middle), last];
const whole = Buffer.concat(pieces);
const completionBytes = Buffer.from(completion);
const models = JSON.stringify({
  object: 'list',
  data: ['small', 'paced', 'bursts'].map((id) => ({ id, object: 'model' })),
});

const server = createServer((request, response) => {
  if (request.method === 'GET') {
    response.setHeader('content-type', 'application/json').end(models);
    return;
  }
  const parts: Buffer[] = [];
  request.on('data', (part: Buffer) => parts.push(part));
  request.on('end', () => {
    const body = Buffer.concat(parts);
    if (body.includes('"paced"')) {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      let sent = 0;
      const timer = setInterval(() => {
        response.write(pieces[sent]);
        sent += 1;
        if (sent === pieces.length) {
          clearInterval(timer);
          response.end();
        }
      }, 5);
    } else if (body.includes('"bursts"')) {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(whole);
    } else {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': completionBytes.byteLength });
      response.end(completionBytes);
    }
  });
});
server.listen(0, '127.0.0.1', () => process.stdout.write(`port ${(server.address() as { port: number }).port}\n`));
