import type { InvokeRequest } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import type { CallTools } from './call-tools.ts';
import { prepareEmbeddings } from './embeddings-call.ts';
import { prepareImages } from './images-call.ts';
import type { PreparedCall } from './prepared-call.ts';
import { prepareSpeech } from './speech-call.ts';
import { prepareText } from './text-call.ts';
import { prepareTranscription } from './transcription-call.ts';

/** What the gateway knows about an operation: where upstreams and clients call it, and how its requests are read. */
type OperationRules = {
  path: string;
  prepare(request: InvokeRequest, tools: CallTools): PreparedCall | Promise<PreparedCall>;
};

const operations: ReadonlyMap<Operation, OperationRules> = new Map<Operation, OperationRules>([
  [Operation.CHAT_COMPLETIONS, { path: '/chat/completions', prepare: prepareText }],
  [Operation.COMPLETIONS, { path: '/completions', prepare: prepareText }],
  [Operation.EMBEDDINGS, { path: '/embeddings', prepare: prepareEmbeddings }],
  [Operation.IMAGES_GENERATIONS, { path: '/images/generations', prepare: prepareImages }],
  [Operation.AUDIO_TRANSCRIPTIONS, { path: '/audio/transcriptions', prepare: prepareTranscription }],
  [Operation.AUDIO_TRANSLATIONS, { path: '/audio/translations', prepare: prepareTranscription }],
  [Operation.AUDIO_SPEECH, { path: '/audio/speech', prepare: prepareSpeech }],
]);

function rulesOf(operation: Operation): OperationRules {
  const rules = operations.get(operation);
  if (rules === undefined) throw gatewayError(ErrorReason.UNIMPLEMENTED, 'This operation has no request of its own.');
  return rules;
}

/** The path of an operation at an upstream, below its base URL. */
export const upstreamPath = (operation: Operation): string => rulesOf(operation).path;

/** The path at which clients call an operation. */
export const endpointOf = (operation: Operation): string => `/v1${rulesOf(operation).path}`;

/** Reads a request as far as its operation needs it. Throws INVALID_REQUEST, naming the field, for one that cannot be read. */
export const prepareCall = (request: InvokeRequest, tools: CallTools): PreparedCall | Promise<PreparedCall> =>
  rulesOf(request.operation).prepare(request, tools);
