import {
  type Answer,
  createdSeconds,
  errorAnswer,
  eventStream,
  jsonAnswer,
  type Piece,
  textOf,
  tokensOf,
  tokenText,
} from './answer.ts';
import type { ReportedUsage, TruthEntry } from './truth-log.ts';

const dimensions = 8;

/** Embeddings as numbers or as base64 of little-endian float32, one for each input. */
export function embeddingsAnswer(entry: TruthEntry): Answer {
  const { json } = entry;
  const input = json?.input;
  // number[] is one input of tokens; string[] and number[][] are several.
  const count = Array.isArray(input) && typeof input[0] !== 'number' ? input.length : 1;
  const length = typeof json?.dimensions === 'number' ? json.dimensions : dimensions;
  const data = Array.from({ length: count }, (_, index) => ({
    object: 'embedding',
    index,
    embedding: json?.encoding_format === 'base64' ? base64Of(embedding(index, length)) : embedding(index, length),
  }));
  const usage =
    entry.behaviour.usage === 'absent' ? null : { prompt_tokens: entry.promptTokens, total_tokens: entry.promptTokens };
  return jsonAnswer(
    { object: 'list', data, model: entry.model, ...(usage !== null && { usage }) },
    { tokens: 0, usage },
  );
}

/** The vector of the n-th input; its numbers are exact in float32, so that both encodings can be compared. */
export const embedding = (index: number, length = dimensions): number[] =>
  Array.from({ length }, (_, position) => (position + 1) / 8 - index);

function base64Of(vector: number[]): string {
  const bytes = Buffer.alloc(vector.length * 4);
  for (const [position, value] of vector.entries()) bytes.writeFloatLE(value, position * 4);
  return bytes.toString('base64');
}

/** A PNG of one transparent pixel. */
const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';
const tokensPerImage = 100;

export function imagesAnswer(entry: TruthEntry): Answer {
  const { json, behaviour } = entry;
  const count = typeof json?.n === 'number' ? json.n : 1;
  const tokens = count * tokensPerImage;
  const usage: ReportedUsage | null =
    behaviour.usage === 'absent'
      ? null
      : {
          input_tokens: entry.promptTokens,
          output_tokens: tokens,
          total_tokens: entry.promptTokens + tokens,
          input_tokens_details: { text_tokens: entry.promptTokens, image_tokens: 0 },
        };
  const b64_json = pixel + 'A'.repeat(behaviour.paddingBytes ?? 0);
  if (entry.stream) {
    const partials = typeof json?.partial_images === 'number' ? json.partial_images : 0;
    const image = {
      b64_json,
      created_at: createdSeconds,
      size: '1024x1024',
      quality: 'high',
      output_format: 'png',
    };
    return eventStream([
      ...Array.from({ length: partials }, (_, partial_image_index) =>
        namedEvent('image_generation.partial_image', { ...image, partial_image_index }),
      ),
      namedEvent('image_generation.completed', { ...image, ...(usage !== null && { usage }) }, { tokens, usage }),
    ]);
  }
  const one = json?.response_format === 'url' ? { url: 'https://images.invalid/1.png' } : { b64_json };
  const data = Array.from({ length: count }, () => one);
  return jsonAnswer({ created: createdSeconds, data, ...(usage !== null && { usage }) }, { tokens, usage });
}

/** Bytes per second of audio, by which the simulator measures what it is sent. */
const audioBytesPerSecond = 32_000;

export function audioTextAnswer(entry: TruthEntry): Answer {
  const field = (name: string) => entry.form.find((part) => part.name === name)?.bytes.toString('utf8');
  const file = entry.form.find(({ name }) => name === 'file');
  if (file === undefined) return errorAnswer(400, 'Missing file');
  const tokens = tokensOf(entry);
  const seconds = Math.ceil(file.bytes.length / audioBytesPerSecond);
  const text = textOf(tokens);
  const usage: ReportedUsage | null = entry.behaviour.usage === 'absent' ? null : { type: 'duration', seconds };
  const withUsage = usage === null ? {} : { usage };
  const meaning = { tokens, text, usage };
  if (entry.stream) {
    return eventStream([
      ...Array.from({ length: tokens }, (_, index) =>
        namedEvent('transcript.text.delta', { delta: tokenText(index) }, { tokens: 1, text: tokenText(index) }),
      ),
      namedEvent('transcript.text.done', { text, ...withUsage }, { tokens: 0, usage }),
    ]);
  }
  const plain = (contentType: string, bytes: string): Answer => ({
    status: 200,
    contentType,
    body: { bytes, ...meaning, usage: null },
  });
  switch (field('response_format') ?? 'json') {
    case 'text':
      return plain('text/plain; charset=utf-8', `${text}\n`);
    case 'srt':
      return plain('application/x-subrip', `1\n00:00:00,000 --> 00:00:01,000\n${text}\n\n`);
    case 'vtt':
      return plain('text/vtt', `WEBVTT\n\n00:00.000 --> 00:01.000\n${text}\n\n`);
    case 'verbose_json':
      return jsonAnswer(
        {
          task: 'transcribe',
          language: 'english',
          duration: seconds,
          text,
          segments: [],
          ...(field('timestamp_granularities[]') === 'word' && { words: wordsOf(text, seconds) }),
          ...withUsage,
        },
        meaning,
      );
    default:
      return jsonAnswer({ text, ...withUsage }, meaning);
  }
}

/** Words that share the time evenly. */
function wordsOf(text: string, seconds: number): { word: string; start: number; end: number }[] {
  const words = text.trim().split(/\s+/);
  const each = seconds / words.length;
  return words.map((word, index) => ({ word, start: index * each, end: (index + 1) * each }));
}

/** Speech: 16 bytes per character, in pieces, so that a client can hear before the end. */
export function speechAnswer(entry: TruthEntry): Answer {
  const input = typeof entry.json?.input === 'string' ? entry.json.input : '';
  const pieces = Array.from({ length: Math.ceil(input.length / 8) }, (_, index) =>
    Buffer.alloc(16 * Math.min(8, input.length - index * 8), index + 1),
  );
  if (entry.json?.stream_format === 'sse') {
    const tokens = pieces.length;
    const usage = {
      input_tokens: entry.promptTokens,
      output_tokens: tokens,
      total_tokens: entry.promptTokens + tokens,
    };
    return eventStream([
      ...pieces.map((bytes) => namedEvent('speech.audio.delta', { audio: bytes.toString('base64') }, { tokens: 1 })),
      namedEvent('speech.audio.done', { usage }, { tokens: 0, usage }),
    ]);
  }
  const formats: Record<string, string> = {
    wav: 'audio/wav',
    opus: 'audio/opus',
    aac: 'audio/aac',
    flac: 'audio/flac',
    pcm: 'audio/pcm',
  };
  return {
    status: 200,
    contentType: formats[String(entry.json?.response_format)] ?? 'audio/mpeg',
    stream: pieces.map((bytes) => ({ bytes, tokens: 1 })),
  };
}

/** A model as the simulator lists it: its id, or an object with it and whatever else servers say about theirs. */
export type SimulatedModel = string | { id: string; [field: string]: unknown };

export const modelsAnswer = (models: readonly SimulatedModel[]): Answer =>
  jsonAnswer({
    object: 'list',
    data: models.map((model) => ({
      object: 'model',
      created: createdSeconds,
      owned_by: 'simulator',
      ...(typeof model === 'string' ? { id: model } : model),
    })),
  });

/** Images and audio name their events in the data, and in an event line too. */
const namedEvent = (type: string, fields: object, piece: Omit<Piece, 'bytes'> = { tokens: 0 }): Piece => ({
  bytes: `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`,
  ...piece,
});
