import type { InvokeRequest } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { prefixedId } from '#shared/ids.ts';
import type { ObjectScan } from '../bytes/json-scan.ts';
import { mediaBytesIn } from '../bytes/media-bytes.ts';
import { asksForUsage, asksForUsageAlone, includeUsageEdit } from '../bytes/splice.ts';
import type { AddedField } from '../catalog/deployment-runtime.ts';
import type { CallTools } from './call-tools.ts';
import { ChatStreamReader } from './chat-stream-reader.ts';
import { eventStreamType, isEventStream } from './event-stream-reader.ts';
import {
  asksForJob,
  bodyForUpstream,
  optionalBoolean,
  optionalInteger,
  promptsIn,
  readJsonRequest,
  requestFields,
  requiredModel,
} from './json-request.ts';
import { type BodyTarget, type PreparedCall, textEstimate } from './prepared-call.ts';
import { countPrompt, withoutEcho } from './prompt-text.ts';
import { readTextAnswer } from './text-answer.ts';
import { readTextAnswerAsStream } from './text-answer-stream.ts';
import { isJson, WholeAnswerReader } from './whole-answer-reader.ts';

const fields = requestFields(
  'model',
  'stream',
  'stream_options',
  'background',
  'prompt',
  'n',
  'best_of',
  'max_tokens',
  'max_completion_tokens',
  'n_predict',
  'echo',
);

/** The most answers and tokens that a request may ask for; more are a mistake or an attack. */
const answersMax = 128;
const tokensMax = 100_000_000;

/** Roughly how many bytes of JSON make a token; for estimates before a call, never for charges. */
export const bytesPerToken = 4;

/** The size of a prompt in JSON, as `textEstimate` takes it. */
export function promptSize(body: Uint8Array): { inputTokens: number; mediaBytes: number } {
  const mediaBytes = mediaBytesIn(body);
  return { inputTokens: Math.ceil((body.byteLength - mediaBytes) / bytesPerToken), mediaBytes };
}

/** Reads a chat or text completion. */
export function prepareText(request: InvokeRequest, tools: CallTools): PreparedCall {
  const scan = readJsonRequest(request.body, fields);
  const model = requiredModel(scan);
  const streamed = optionalBoolean(scan, 'stream') ?? false;
  const includeUsage = asksForUsage(scan);
  const isChat = request.operation === Operation.CHAT_COMPLETIONS;
  const prompts = isChat ? 1 : promptsIn(scan, 'prompt');
  const choicesEach = optionalInteger(scan, 'n', 1, answersMax) ?? 1;
  const answersEach = Math.max(choicesEach, optionalInteger(scan, 'best_of', 1, answersMax) ?? 1);
  const answers = prompts * answersEach;
  const { isLimited, predicted, outputTokensMax } = outputLimits(scan, isChat);
  /** Set when the caller's budget allows only a shorter answer. */
  let outputTokensLimit: number | null = null;
  // The gateway can count the tokens itself.
  const worksWithoutStreamOptions = streamed && asksForUsageAlone(scan);
  const usageEdit = ({ refusedFields }: BodyTarget) =>
    worksWithoutStreamOptions && refusedFields.has('stream_options')
      ? (['stream_options', null] as const)
      : includeUsageEdit(scan);
  const limitEdit = ({ refusedFields }: BodyTarget) => {
    if (outputTokensLimit === null) return null;
    // OpenAI's reasoning models know only the one of the two that Mistral, for one, refuses.
    const isNewer = isChat && !refusedFields.has('max_completion_tokens');
    return [isNewer ? 'max_completion_tokens' : 'max_tokens', String(outputTokensLimit)] as const;
  };
  const predictedEdit = () => {
    if (outputTokensLimit === null || predicted === undefined) return null;
    const tokens = predicted > 0 ? Math.min(predicted, outputTokensLimit) : outputTokensLimit;
    return ['n_predict', String(tokens)] as const;
  };
  const edits = (deployment: BodyTarget) => {
    const usage = streamed ? usageEdit(deployment) : null;
    return [usage, limitEdit(deployment), predictedEdit()].filter((edit) => edit !== null);
  };
  const { inputTokens, mediaBytes } = promptSize(request.body);
  const estimate = textEstimate(inputTokens, outputTokensMax === null ? null : outputTokensMax * answers, {
    prompts,
    answers,
    mediaBytes,
  });
  const countInputTokens = async () => countPrompt(request.body, await tools.tokenizer());
  const isEchoed = scan.boolean('echo') === true;
  const ownText = (text: string) => (isEchoed ? withoutEcho(text, request.body, choicesEach) : text);
  return {
    model,
    streamed,
    background: asksForJob(scan),
    estimate,
    contentType: 'application/json',
    bodyFor: (deployment) => bodyForUpstream(scan, deployment.upstreamModel, edits(deployment)),
    addedFields() {
      const added: AddedField[] = worksWithoutStreamOptions ? ['stream_options'] : [];
      if (isChat && outputTokensLimit !== null) added.push('max_completion_tokens');
      return added;
    },
    limitOutputTokens: isLimited
      ? undefined
      : (tokens) => {
          outputTokensLimit = tokens;
          estimate.outputTokensMax = tokens * answers;
        },
    reader: (head, bound) => {
      const rules = { isChat, model, tools, bound, countInputTokens, ownText };
      if (!streamed) return new WholeAnswerReader((body) => readTextAnswer(body, rules));
      const isStream = isEventStream(head);
      if (!isStream && !isJson(head)) return null;
      const chat = {
        operation: isChat ? 'chat' : 'completions',
        includeUsage,
        mintId: () => prefixedId(isChat ? 'chatcmpl-' : 'cmpl-'),
        createdSeconds: Math.floor(tools.clock.now() / 1000),
        model,
        answers,
      } as const;
      if (isStream) return new ChatStreamReader({ ...rules, chat });
      // Some upstreams do not stream and answer whole even when asked to.
      return new WholeAnswerReader((body) => readTextAnswerAsStream(body, rules, chat), {
        contentType: eventStreamType,
      });
    },
  };
}

/** How many tokens an answer may have, as far as the caller says so; `outputTokensMax` is null if it may have any. */
function outputLimits<Name extends string>(
  scan: ObjectScan<Name | 'max_tokens' | 'max_completion_tokens' | 'n_predict'>,
  isChat: boolean,
) {
  // A chat has two such fields, and which one an upstream heeds is its own business; a text completion has only one.
  const limits = [
    optionalInteger(scan, 'max_tokens', 0, tokensMax),
    isChat ? optionalInteger(scan, 'max_completion_tokens', 0, tokensMax) : undefined,
  ].filter((limit) => limit !== undefined);
  // llama.cpp heeds this one above them, and takes a negative one for no limit; most others do not know it.
  const predicted = optionalInteger(scan, 'n_predict', -2, tokensMax);
  const heeded = predicted === undefined ? limits : [...limits, predicted];
  // Ollama, for one, takes 0 for no limit.
  const outputTokensMax = limits.length === 0 || heeded.some((limit) => limit <= 0) ? null : Math.max(...heeded);
  return { isLimited: limits.length > 0, predicted, outputTokensMax };
}
