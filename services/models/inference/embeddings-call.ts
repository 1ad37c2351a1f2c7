import type { InvokeRequest } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { invalidRequest } from '#shared/errors.ts';
import type { CallTools } from './call-tools.ts';
import { type Embeddings, embeddingsAnswer, readEmbeddings } from './embeddings-answer.ts';
import {
  asksForJob,
  bodyForUpstream,
  promptsIn,
  readJsonRequest,
  requestFields,
  requiredModel,
} from './json-request.ts';
import { type PreparedCall, textEstimate } from './prepared-call.ts';
import { countPrompt } from './prompt-text.ts';
import { promptSize } from './text-call.ts';
import { WholeAnswerReader } from './whole-answer-reader.ts';

const fields = requestFields('model', 'stream', 'background', 'encoding_format', 'input');

/** Two thousand vectors of four thousand numbers in decimal. */
const vectorBytesMax = 192 * 1024 * 1024;

/** Reads a request for embeddings. The client gets the encoding it asked for, whatever the upstream answers. */
export function prepareEmbeddings(request: InvokeRequest, tools: CallTools): PreparedCall {
  const scan = readJsonRequest(request.body, fields);
  const model = requiredModel(scan);
  const format = scan.json('encoding_format') ?? 'float';
  if (format !== 'float' && format !== 'base64') {
    throw invalidRequest('encoding_format', '`encoding_format` must be `float` or `base64`.', 'invalid_value');
  }
  const input = scan.kind('input');
  if (input !== 'string' && input !== 'array') {
    throw invalidRequest(
      'input',
      '`input` must be a string or an array.',
      input === undefined ? 'missing_required_field' : 'invalid_value',
    );
  }
  const asked = { format, model } as const;
  const { inputTokens, mediaBytes } = promptSize(request.body);
  const countInputTokens = async () => countPrompt(request.body, await tools.tokenizer());
  return {
    model,
    streamed: false,
    streamField: scan.boolean('stream') === true ? 'stream' : undefined,
    background: asksForJob(scan),
    estimate: textEstimate(inputTokens, 0, {
      prompts: promptsIn(scan, 'input'),
      mediaBytes,
    }),
    contentType: 'application/json',
    bodyFor: ({ upstreamModel }) => bodyForUpstream(scan, upstreamModel),
    reader(head, bound) {
      const answer = (read: Embeddings | null) =>
        read === null ? null : embeddingsAnswer(read, bound, countInputTokens);
      return new WholeAnswerReader((body) => answer(readEmbeddings(body, asked)), {
        bytesMax: vectorBytesMax,
        head,
        readLarge: async (body) => answer(await tools.largeEmbeddings.read(body, asked)),
      });
    },
  };
}
