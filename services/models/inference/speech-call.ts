import type { InvokeRequest } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { invalidRequest } from '#shared/errors.ts';
import { BytesReader } from './bytes-reader.ts';
import { EventStreamReader, isEventStream } from './event-stream-reader.ts';
import { asksForJob, bodyForUpstream, readJsonRequest, requestFields, requiredModel } from './json-request.ts';
import { type PreparedCall, textEstimate } from './prepared-call.ts';
import { bytesPerToken } from './text-call.ts';

const fields = requestFields('model', 'input', 'response_format', 'stream', 'stream_format', 'background');

/** The longest text that can be spoken in one call (openai-contract.md section 4), in characters. */
const charactersMax = 4_096;
/** The most tokens of speech per character, at a quarter of the usual speed and 20 tokens a second; and those of ten seconds of pauses. */
const tokensPerCharacter = 6;
const tokensOfPauses = 200;

/** By format. A map, since an object would also know `constructor`. */
const contentTypes: ReadonlyMap<string, string> = new Map([
  ['mp3', 'audio/mpeg'],
  ['opus', 'audio/opus'],
  ['aac', 'audio/aac'],
  ['flac', 'audio/flac'],
  ['wav', 'audio/wav'],
  ['pcm', 'audio/pcm'],
]);

/** Reads a request for speech. The answer's bytes are passed on as they come; they carry no usage, so characters are metered. */
export function prepareSpeech(request: InvokeRequest): PreparedCall {
  const scan = readJsonRequest(request.body, fields);
  const model = requiredModel(scan);
  const input = scan.string('input');
  if (input === undefined || input === '') {
    const missing = scan.kind('input') === undefined || input === '';
    throw invalidRequest(
      'input',
      '`input` must be a string that is not empty.',
      missing ? 'missing_required_field' : 'invalid_value',
    );
  }
  const characters = codePoints(input);
  if (characters > charactersMax) {
    throw invalidRequest(
      'input',
      `\`input\` has ${characters} characters; the maximum is ${charactersMax}.`,
      'string_above_max_length',
    );
  }
  const contentType = contentTypes.get(scan.string('response_format') ?? 'mp3') ?? 'application/octet-stream';
  const streamed = scan.string('stream_format') === 'sse';
  return {
    model,
    streamed,
    streamField: streamed ? 'stream_format' : scan.boolean('stream') === true ? 'stream' : undefined,
    background: asksForJob(scan),
    estimate: {
      ...textEstimate(
        Math.ceil(request.body.byteLength / bytesPerToken),
        characters * tokensPerCharacter + tokensOfPauses,
      ),
      characters,
    },
    contentType: 'application/json',
    bodyFor: ({ upstreamModel }) => bodyForUpstream(scan, upstreamModel),
    reader: (head, bound) => {
      if (isEventStream(head)) {
        return new EventStreamReader({
          lastEvent: 'speech.audio.done',
          deltaEvent: 'speech.audio.delta',
          // The tokens of sound can only be counted as its pieces.
          measure: ({ usage, said }) => ({
            ...(bound.measured(usage) ?? { outputTokens: said.pieces }),
            characters: said.pieces === 0 ? 0 : characters,
          }),
        });
      }
      const type = head.header('content-type');
      // An error or a web page with status 200.
      if (type !== undefined && !soundOrBytes.test(type)) return null;
      return new BytesReader({
        contentType: audioType(type) ?? contentType,
        measure: (bytes) => ({ characters: bytes === 0 ? 0 : characters }),
      });
    },
  };
}

/** Characters as a price list counts them: a surrogate pair is one. */
function codePoints(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/** The types of sound. */
const soundOrBytes = /^(audio\/|application\/octet-stream\b)/i;

/** The upstream's own type, if it names a sound. */
const audioType = (contentType: string | undefined): string | undefined =>
  contentType !== undefined && /^audio\/[\w.+-]+/i.test(contentType) ? contentType : undefined;
