import { type Answer, jsonAnswer, Refusal, sseContentType, sseEvent, streamAnswer } from './answer.ts';
import type { Call } from './call.ts';
import { flagField, integerField, type JsonObject, textField, wordField } from './fields.ts';
import { hashText, mixHash } from './hash.ts';
import { encodePng } from './png.ts';

const promptCharactersMax = 32_000;
const sideMax = 2_048;
const gridSide = 8;

type ImageRequest = {
  prompt: string;
  width: number;
  height: number;
  quality: 'low' | 'medium' | 'high';
  background: 'opaque' | 'transparent';
  seed: number;
};

/** POST /images/generations: a mirrored pattern in the colours of the prompt's hash, as PNG. */
export async function imageGenerations({ json, model, created, tokens }: Call): Promise<Answer> {
  const stream = flagField(json, 'stream');
  const n = integerField(json, 'n', 1, 10) ?? 1;
  const partials = integerField(json, 'partial_images', 0, 3) ?? 0;
  // A URL would need a server that keeps the picture.
  wordField(json, 'response_format', ['b64_json']);
  wordField(json, 'output_format', ['png']);
  const request = readRequest(json);

  const parameters = {
    background: request.background,
    output_format: 'png',
    quality: request.quality,
    size: `${request.width}x${request.height}`,
  };
  const textTokens = await tokens.count(request.prompt);
  const imageTokens = n * tokensPerImage(request);
  const usage = {
    input_tokens: textTokens,
    input_tokens_details: { text_tokens: textTokens, image_tokens: 0 },
    output_tokens: imageTokens,
    output_tokens_details: { text_tokens: 0, image_tokens: imageTokens },
    total_tokens: textTokens + imageTokens,
  };
  const images = await Promise.all(Array.from({ length: n }, (_, i) => draw(request, i, 1)));
  if (!stream) {
    return jsonAnswer({
      created,
      data: images.map((b64_json) => ({ b64_json })),
      ...parameters,
      usage,
      model: model.id,
    });
  }
  const common = { created_at: created, ...parameters };
  const events = [];
  for (const [i, image] of images.entries()) {
    for (let partial = 0; partial < partials; partial++) {
      const b64_json = await draw(request, i, (partial + 1) / (partials + 1));
      events.push(
        sseEvent({ type: 'image_generation.partial_image', ...common, b64_json, partial_image_index: partial }),
      );
    }
    // The last image carries the usage of the whole request: a meter that reads one event and a meter that adds them up agree.
    const whole = i === n - 1 ? { usage } : {};
    events.push(sseEvent({ type: 'image_generation.completed', ...common, b64_json: image, ...whole }));
  }
  return streamAnswer(sseContentType, events);
}

function readRequest(json: JsonObject): ImageRequest {
  const prompt = textField(json, 'prompt');
  if (prompt.length > promptCharactersMax) {
    throw new Refusal(`Invalid value for 'prompt': at most ${promptCharactersMax} characters.`, {
      param: 'prompt',
      code: 'string_above_max_length',
    });
  }
  const size = json.size ?? 'auto';
  const match = /^(\d{1,5})x(\d{1,5})$/.exec(size === 'auto' ? '1024x1024' : String(size));
  const [width, height] = [Number(match?.[1]), Number(match?.[2])];
  if (!(width >= 16 && width <= sideMax && height >= 16 && height <= sideMax)) {
    throw new Refusal(`Invalid value for 'size': expected 'auto' or WIDTHxHEIGHT, each from 16 to ${sideMax}.`, {
      param: 'size',
      code: 'invalid_value',
    });
  }
  const quality = wordField(json, 'quality', ['auto', 'low', 'medium', 'high', 'standard', 'hd']);
  const background = wordField(json, 'background', ['auto', 'opaque', 'transparent']);
  return {
    prompt,
    width,
    height,
    quality: quality === 'low' || quality === 'high' ? quality : quality === 'hd' ? 'high' : 'medium',
    background: background === 'transparent' ? 'transparent' : 'opaque',
    seed: hashText(prompt),
  };
}

/** Tokens by area and quality: 272, 1056 and 4160 for 1024×1024, as OpenAI's image models count. */
function tokensPerImage({ width, height, quality }: ImageRequest): number {
  const detail = { low: 1, medium: 2, high: 4 }[quality];
  return Math.ceil(width / 64) * Math.ceil(height / 64) * detail ** 2 + 16 * detail;
}

/** The image as base64. `revealed` is the share of its rows which a partial image shows. */
async function draw(request: ImageRequest, index: number, revealed: number): Promise<string> {
  let hash = mixHash(request.seed + index);
  const colour = () => {
    hash = mixHash(hash + 1);
    return hash & 0xffffff;
  };
  const palette = [0xf4f1ea, colour(), colour(), colour()] as const;
  const grid = Array.from({ length: gridSide }, (_, y) => {
    const half = Array.from({ length: gridSide / 2 }, () => colour() % 4);
    return y < gridSide * revealed ? [...half, ...half.toReversed()] : new Array<number>(gridSide).fill(0);
  });
  const transparent = request.background === 'transparent';
  const png = await encodePng({ width: request.width, height: request.height, palette, transparent, grid });
  return png.toString('base64');
}
