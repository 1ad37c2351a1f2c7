import { isObject } from '#shared/is-object.ts';
import { wavHeader } from '../../audio/wav-header.ts';
import { type Answer, Refusal, sseContentType, sseEvent, streamAnswer } from './answer.ts';
import type { Call } from './call.ts';
import { type JsonObject, numberField, textField, wordField } from './fields.ts';
import { silentAac, silentFrames, silentMp3 } from './silent-frames.ts';
import { bytesPerSample, durationMsOf, sampleRate, samplesOf, toneSamples } from './tone.ts';

const inputCharactersMax = 4_096;
/** Tokens of speech in a second, for the usage of an SSE answer. */
const tokensPerSecond = 20;

/** POST /audio/speech: tones as WAV or PCM, silence of the same length as MP3 or AAC, which need no codec for that. */
export async function speech({ json, tokens }: Call): Promise<Answer> {
  const input = textField(json, 'input');
  if ([...input].length > inputCharactersMax) {
    throw new Refusal(`Invalid value for 'input': at most ${inputCharactersMax} characters.`, {
      param: 'input',
      code: 'string_above_max_length',
    });
  }
  checkVoice(json);
  const speed = numberField(json, 'speed', 0.25, 4) ?? 1;
  const format = wordField(json, 'response_format', ['mp3', 'opus', 'aac', 'flac', 'wav', 'pcm']);
  const framing = wordField(json, 'stream_format', ['audio', 'sse']);
  const { contentType, pieces } = soundAs(format, input, speed);
  if (framing === 'audio') return streamAnswer(contentType, pieces);
  const inputTokens = await tokens.count(input);
  const outputTokens = Math.ceil((durationMsOf(input, speed) / 1000) * tokensPerSecond);
  const usage = { input_tokens: inputTokens, output_tokens: outputTokens, total_tokens: inputTokens + outputTokens };
  return streamAnswer(sseContentType, speechEvents(pieces, usage));
}

/** A voice is a name, or an object with the id of an own voice. */
function checkVoice(json: JsonObject): void {
  const voice = isObject(json.voice) ? json.voice.id : json.voice;
  if (typeof voice === 'string' && voice !== '') return;
  throw new Refusal("Missing required parameter: 'voice'.", { param: 'voice' });
}

function soundAs(format: string, input: string, speed: number): { contentType: string; pieces: Iterable<Uint8Array> } {
  switch (format) {
    case 'wav':
      return { contentType: 'audio/wav', pieces: wavPieces(input, speed) };
    case 'pcm':
      return { contentType: 'audio/pcm', pieces: toneSamples(input, speed) };
    case 'mp3':
      return { contentType: 'audio/mpeg', pieces: silentFrames(silentMp3, durationMsOf(input, speed)) };
    case 'aac':
      return { contentType: 'audio/aac', pieces: silentFrames(silentAac, durationMsOf(input, speed)) };
    default:
      throw new Refusal(
        `The sandbox cannot encode '${format}'. It speaks wav and pcm, and returns silence as mp3 and aac.`,
        { param: 'response_format', code: 'unsupported_value' },
      );
  }
}

function* wavPieces(input: string, speed: number): Generator<Uint8Array> {
  yield wavHeader(samplesOf(input, speed) * bytesPerSample, sampleRate);
  yield* toneSamples(input, speed);
}

function* speechEvents(pieces: Iterable<Uint8Array>, usage: object): Generator<Uint8Array> {
  for (const piece of pieces) {
    yield sseEvent({ type: 'speech.audio.delta', audio: Buffer.from(piece).toString('base64') });
  }
  yield sseEvent({ type: 'speech.audio.done', usage });
}
