import type { InvokeRequest } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { ObjectScan } from '../bytes/json-scan.ts';
import { EventStreamReader, eventStreamType, isEventStream } from './event-stream-reader.ts';
import { refuseSvgModel } from './further-models.ts';
import { outputTokensUnknown } from './hold-budget.ts';
import { imagesUsed, readImages, readImagesAsStream } from './images-answer.ts';
import {
  bodyForUpstream,
  optionalBoolean,
  optionalInteger,
  readJsonRequest,
  requestFields,
  requiredModel,
} from './json-request.ts';
import { type PreparedCall, textEstimate } from './prepared-call.ts';
import { bytesPerToken } from './text-call.ts';
import { WholeAnswerReader } from './whole-answer-reader.ts';

// A `background` that is a string is the image's own, transparent or opaque, and is passed on (openai-contract.md section 0).
const fields = requestFields('model', 'stream', 'background', 'n', 'size', 'quality', 'output_format', 'svg');

const imagesMax = 128;
/** The largest answer, with its images in base64, in bytes. */
const imageBytesMax = 256 * 1024 * 1024;
/** The largest event of a stream, in bytes: an image of 4,096 × 4,096 in base64, as a PNG that cannot be compressed. */
const eventBytesMax = 68 * 1024 * 1024;
/**
 * Output tokens of one image: of a square of high quality by gpt-image-2, which makes larger ones of more by their area, and up to three
 * partial ones before it in a stream.
 */
const squareTokens = 7_024;
const squarePixels = 1_024 * 1_024;
const areaOffsetPixels = 2_000_000;
const partialTokens = 300;
/** The qualities and formats whose tokens are known. Others take several times as many: frames, or the words of a drawing. */
const qualitiesKnown = new Set(['low', 'medium', 'high', 'auto', 'standard', 'hd']);
const formatsKnown = new Set(['png', 'jpeg', 'webp']);

/** Reads a request for images. */
export function prepareImages(request: InvokeRequest): PreparedCall {
  const scan = readJsonRequest(request.body, fields);
  const model = requiredModel(scan);
  const streamed = optionalBoolean(scan, 'stream') ?? false;
  const images = optionalInteger(scan, 'n', 1, imagesMax) ?? 1;
  refuseSvgModel(scan);
  // Each image of a stream may be reported with the whole prompt.
  const prompts = streamed ? images : 1;
  return {
    model,
    streamed,
    background: scan.boolean('background') === true,
    estimate: {
      ...textEstimate(prompts * Math.ceil(request.body.byteLength / bytesPerToken), images * tokensToHold(scan), {
        prompts,
        answers: images,
      }),
      images,
    },
    contentType: 'application/json',
    bodyFor: ({ upstreamModel }) => bodyForUpstream(scan, upstreamModel),
    reader: (head, bound) => {
      const asked = { images, bound };
      if (!streamed) return new WholeAnswerReader((body) => readImages(body, asked), { bytesMax: imageBytesMax, head });
      // Some models do not stream and answer whole even when asked to.
      if (!isEventStream(head)) {
        return new WholeAnswerReader((body) => readImagesAsStream(body, asked), {
          contentType: eventStreamType,
          bytesMax: imageBytesMax,
          head,
        });
      }
      return new EventStreamReader({
        lastEvent: 'image_generation.completed',
        lastEventsMax: images,
        deltaEvent: null,
        eventBytesMax,
        measure: ({ usage, lastEvents }) => imagesUsed(usage, lastEvents, asked),
      });
    },
  };
}

/** How many output tokens budgets hold for each image. */
function tokensToHold<Name extends string>(scan: ObjectScan<Name | 'size' | 'quality' | 'output_format'>): number {
  const [, width, height] = /^(\d{1,5})x(\d{1,5})$/.exec(scan.string('size') ?? '') ?? [];
  const pixels = Math.max(squarePixels, Number(width ?? 0) * Number(height ?? 0));
  const scale = (areaOffsetPixels + pixels) / (areaOffsetPixels + squarePixels);
  const tokens = Math.ceil(squareTokens * scale) + partialTokens;
  const isKnown =
    qualitiesKnown.has(scan.string('quality') ?? 'auto') && formatsKnown.has(scan.string('output_format') ?? 'png');
  return isKnown ? tokens : Math.max(tokens, outputTokensUnknown);
}
