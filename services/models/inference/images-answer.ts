import { fieldSet, ObjectScan } from '../bytes/json-scan.ts';
import { type ReportedUsage, readUsage, usageOfBoth } from '../bytes/reported-usage.ts';
import { toOneLine } from '../bytes/sse.ts';
import { isError } from '../bytes/stream-error.ts';
import type { Measures } from '../domain/price.ts';
import type { UsageBound } from './usage-bound.ts';
import type { WholeAnswer } from './whole-answer-reader.ts';

type ImagesAsked = {
  /** How many images were asked for. */
  images: number;
  bound: UsageBound;
};

const fields = fieldSet('data', 'usage', 'svg_usage', 'error', 'object', 'type');
const imageFields = fieldSet('b64_json', 'url');

/** Reads a list of images, which is passed on byte for byte. Null when it is none, or when an image is neither included nor linked. */
export function readImages(body: Buffer, asked: ImagesAsked): WholeAnswer | null {
  const image = new ObjectScan(imageFields);
  let areImages = true;
  const scan = new ObjectScan(fields, {
    in: 'data',
    scan: image,
    take() {
      areImages &&= hasText(image, 'b64_json') || hasText(image, 'url');
    },
  });
  if (scan.read(body) !== null || scan.itemCount < 1 || !areImages) return null;
  if (isError(scan)) return null;
  return {
    forward: [body],
    // An SVG's author (OpenAI) is reported by itself.
    reported: imagesUsed(
      usageOfBoth(readUsage(scan.json('usage')), readUsage(scan.json('svg_usage'))),
      scan.itemCount,
      asked,
    ),
    counted: async () => ({}),
  };
}

const sharedFields = fieldSet('data', 'created', 'background', 'output_format', 'quality', 'size', 'usage');

/** Reads a list of images for a client that asked for a stream: it gets one event per image, the last one with the usage. */
export function readImagesAsStream(body: Buffer, asked: ImagesAsked): WholeAnswer | null {
  const answer = readImages(body, asked);
  if (answer === null) return null;
  toOneLine(body);
  const image = new ObjectScan(imageFields);
  const images: Uint8Array[] = [];
  const scan = new ObjectScan(sharedFields, {
    in: 'data',
    scan: image,
    take() {
      images.push(body.subarray(image.open, image.close));
    },
  });
  scan.read(body);
  const member = (name: (typeof sharedFields.names)[number], as: string = name): string => {
    const found = scan.member(name);
    return found === undefined ? '' : `,"${as}":${body.toString('utf8', found.valueStart, found.valueEnd)}`;
  };
  const type = 'image_generation.completed';
  const shared = (['background', 'output_format', 'quality', 'size'] as const).map((name) => member(name)).join('');
  const prefix = Buffer.from(`event: ${type}\ndata: `);
  const forward = images.flatMap((bytes, place) => {
    const usage = place === images.length - 1 ? member('usage') : '';
    return [prefix, bytes, Buffer.from(`,"type":"${type}"${member('created', 'created_at')}${shared}${usage}}\n\n`)];
  });
  return { ...answer, forward };
}

/**
 * What the delivered images are charged as: a model is priced by images or by tokens; both are measured, and its price decides which
 * counts.
 */
export const imagesUsed = (
  usage: ReportedUsage | null,
  images: number,
  { images: asked, bound }: ImagesAsked,
): Partial<Measures> => ({ ...bound.measured(usage), images: bound.allows({ images }) ? images : asked });

/** Whether a member is a string longer than the two quotes of an empty one. */
const hasText = (image: ObjectScan<'b64_json' | 'url'>, name: 'b64_json' | 'url'): boolean =>
  image.kind(name) === 'string' && image.valueBytes(name) > 2;
