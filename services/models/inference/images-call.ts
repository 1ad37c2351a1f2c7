import type { InvokeRequest } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { EventStreamReader, eventStreamType, isEventStream } from './event-stream-reader.ts';
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
const fields = requestFields('model', 'stream', 'background', 'n');

const imagesMax = 128;
/** The largest answer, with its images in base64, in bytes. */
const imageBytesMax = 256 * 1024 * 1024;
/** The largest event of a stream, in bytes: an image of 4,096 × 4,096 in base64, as a PNG that cannot be compressed. */
const eventBytesMax = 68 * 1024 * 1024;
/**
 * The most output tokens per image: the largest of OpenAI's models at the highest quality, 6,240, and up to three partial images before it
 * in a stream, 100 each.
 */
const tokensPerImageMax = 6_540;

/** Reads a request for images. */
export function prepareImages(request: InvokeRequest): PreparedCall {
  const scan = readJsonRequest(request.body, fields);
  const model = requiredModel(scan);
  const streamed = optionalBoolean(scan, 'stream') ?? false;
  const images = optionalInteger(scan, 'n', 1, imagesMax) ?? 1;
  return {
    model,
    streamed,
    background: scan.boolean('background') === true,
    estimate: {
      ...textEstimate(Math.ceil(request.body.byteLength / bytesPerToken), images * tokensPerImageMax),
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
