import type { AudioLengthReader } from '../../audio/audio-length-reader.ts';
import type { Tokenizer } from '../../bytes/tokens.ts';
import { type Answer, jsonAnswer, Refusal, sseContentType, sseEvent, streamAnswer, textAnswer } from './answer.ts';
import { type JsonObject, wordField } from './fields.ts';
import type { Form } from './form.ts';
import { type Heard, listen, type Segment, wordsOf } from './listening.ts';
import type { SandboxModel } from './models.ts';
import { deltasOf } from './reply.ts';

/** One call with a form, as an audio operation gets it. */
export type FormCall = { model: SandboxModel; form: Form; tokens: Tokenizer; lengths: AudioLengthReader };

/** How speech counts where a model counts tokens. */
const tokensPerSecond = 10;
const plainText = 'text/plain; charset=utf-8';

/** POST /audio/transcriptions. */
export async function transcriptions(call: FormCall): Promise<Answer> {
  const { form } = call;
  const fields = lastValues(form);
  const format = wordField(fields, 'response_format', ['json', 'text', 'srt', 'verbose_json', 'vtt', 'diarized_json']);
  const granularities =
    form.fields.get('timestamp_granularities[]') ?? form.fields.get('timestamp_granularities') ?? [];
  const heard = await listen(audioOf(form), call.lengths);
  const usage = await audioUsage(call, heard, fields);
  // Python clients write `True`.
  const stream = form.fields.get('stream')?.at(-1)?.toLowerCase();
  if (wordField({ stream }, 'stream', ['false', 'true']) === 'true') {
    return streamAnswer(sseContentType, transcriptEvents(heard.text, await tokenUsage(call, heard, fields)));
  }
  switch (format) {
    case 'verbose_json': {
      const language = typeof fields.language === 'string' && fields.language !== '' ? fields.language : 'english';
      return jsonAnswer({ ...verbose('transcribe', language, heard, granularities), usage });
    }
    case 'diarized_json':
      return jsonAnswer({
        task: 'transcribe',
        duration: heard.seconds,
        text: heard.text,
        segments: heard.segments.map((segment, i) => ({
          type: 'transcript.text.segment',
          id: `seg_${i}`,
          speaker: 'A',
          ...segment,
        })),
        usage,
      });
    case 'json':
      return jsonAnswer({ text: heard.text, usage });
    default:
      return asText(format, heard);
  }
}

/** POST /audio/translations. The sandbox hears everything in English already. */
export async function translations(call: FormCall): Promise<Answer> {
  const fields = lastValues(call.form);
  const format = wordField(fields, 'response_format', ['json', 'text', 'srt', 'verbose_json', 'vtt']);
  const heard = await listen(audioOf(call.form), call.lengths);
  const usage = await audioUsage(call, heard, fields);
  if (format === 'json') return jsonAnswer({ text: heard.text, usage });
  if (format === 'verbose_json') return jsonAnswer({ ...verbose('translate', 'english', heard, []), usage });
  return asText(format, heard);
}

/** A form's fields with their last values, so that the readers for JSON fields read them too. */
const lastValues = (form: Form): JsonObject =>
  Object.fromEntries([...form.fields].map(([name, values]) => [name, values.at(-1)]));

function audioOf({ file }: Form): Buffer {
  if (file === undefined) throw new Refusal("Missing required parameter: 'file'.", { param: 'file' });
  if (file.length === 0) throw new Refusal('The audio file is empty.', { param: 'file' });
  return file;
}

const audioUsage = async (call: FormCall, heard: Heard, fields: JsonObject): Promise<object> =>
  call.model.audioUsage === 'duration'
    ? { type: 'duration', seconds: Math.ceil(heard.seconds) }
    : tokenUsage(call, heard, fields);

/** The only usage that OpenAI's events know: clients with strict types cannot read a length there. */
async function tokenUsage({ tokens }: FormCall, heard: Heard, fields: JsonObject) {
  const textTokens = typeof fields.prompt === 'string' ? await tokens.count(fields.prompt) : 0;
  const audioTokens = Math.ceil(heard.seconds * tokensPerSecond);
  const outputTokens = await tokens.count(heard.text);
  return {
    type: 'tokens',
    input_tokens: textTokens + audioTokens,
    input_token_details: { text_tokens: textTokens, audio_tokens: audioTokens },
    output_tokens: outputTokens,
    total_tokens: textTokens + audioTokens + outputTokens,
  };
}

function verbose(task: string, language: string, heard: Heard, granularities: readonly string[]) {
  const withWords = granularities.includes('word');
  const withSegments = granularities.includes('segment') || !withWords;
  return {
    task,
    language,
    duration: heard.seconds,
    text: heard.text,
    ...(withWords && { words: heard.segments.flatMap(wordsOf) }),
    ...(withSegments && { segments: heard.segments.map(verboseSegment) }),
  };
}

const verboseSegment = ({ start, end, text }: Segment, id: number) => ({
  id,
  seek: 0,
  start,
  end,
  text,
  tokens: [],
  temperature: 0,
  avg_logprob: 0,
  compression_ratio: 1,
  no_speech_prob: 0,
});

function asText(format: 'text' | 'srt' | 'vtt', heard: Heard): Answer {
  switch (format) {
    case 'text':
      return textAnswer(plainText, `${heard.text}\n`);
    case 'srt':
      return textAnswer(plainText, srtOf(heard.segments));
    case 'vtt':
      return textAnswer(plainText, vttOf(heard.segments));
  }
}

/** SubRip: numbered cues, a comma before the milliseconds. */
const srtOf = (segments: readonly Segment[]): string =>
  segments
    .map(({ start, end, text }, i) => `${i + 1}\n${timeOf(start, ',')} --> ${timeOf(end, ',')}\n${text}\n\n`)
    .join('');

/** WebVTT (W3C). */
const vttOf = (segments: readonly Segment[]): string =>
  `WEBVTT\n\n${segments.map(({ start, end, text }) => `${timeOf(start, '.')} --> ${timeOf(end, '.')}\n${text}\n\n`).join('')}`;

function timeOf(seconds: number, mark: string): string {
  const totalMs = Math.round(seconds * 1000);
  const two = (value: number) => String(Math.floor(value)).padStart(2, '0');
  const hours = two(totalMs / 3_600_000);
  const minutes = two((totalMs / 60_000) % 60);
  return `${hours}:${minutes}:${two((totalMs / 1000) % 60)}${mark}${String(totalMs % 1000).padStart(3, '0')}`;
}

function* transcriptEvents(text: string, usage: object): Generator<Uint8Array> {
  for (const delta of deltasOf(text)) yield sseEvent({ type: 'transcript.text.delta', delta });
  yield sseEvent({ type: 'transcript.text.done', text, usage });
}
