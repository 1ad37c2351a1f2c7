import type { InvokeRequest } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import type { KnownOperation } from '#shared/operations.ts';
import type { CallTools } from './call-tools.ts';
import { prepareEmbeddings } from './embeddings-call.ts';
import { prepareImages } from './images-call.ts';
import type { PreparedCall } from './prepared-call.ts';
import { prepareSpeech } from './speech-call.ts';
import { prepareText } from './text-call.ts';
import { prepareTranscription } from './transcription-call.ts';

type Prepare = (request: InvokeRequest, tools: CallTools) => PreparedCall | Promise<PreparedCall>;

/** How the requests of each operation are read; null: it has none. An operation without a row does not compile. */
const preparations: Readonly<Record<KnownOperation, Prepare | null>> = {
  [Operation.CHAT_COMPLETIONS]: prepareText,
  [Operation.COMPLETIONS]: prepareText,
  [Operation.EMBEDDINGS]: prepareEmbeddings,
  [Operation.IMAGES_GENERATIONS]: prepareImages,
  [Operation.AUDIO_TRANSCRIPTIONS]: prepareTranscription,
  [Operation.AUDIO_TRANSLATIONS]: prepareTranscription,
  [Operation.AUDIO_SPEECH]: prepareSpeech,
  [Operation.REALTIME_TRANSCRIPTION]: null,
};

/** Reads a request as far as its operation needs it. Throws INVALID_REQUEST, naming the field, for one that cannot be read. */
export function prepareCall(request: InvokeRequest, tools: CallTools): PreparedCall | Promise<PreparedCall> {
  const prepare = preparations[request.operation as KnownOperation];
  if (prepare === null) throw gatewayError(ErrorReason.UNIMPLEMENTED, 'This operation has no request of its own.');
  return prepare(request, tools);
}
