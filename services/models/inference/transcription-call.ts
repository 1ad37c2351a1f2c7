import type { InvokeRequest } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { usualDurationMs } from '../audio/audio-duration.ts';
import { AudioLength } from '../audio/audio-length.ts';
import type { UpstreamHead } from '../upstream/upstream.ts';
import { type AudioForm, readAudioForm } from './audio-form.ts';
import type { CallTools } from './call-tools.ts';
import { EventStreamReader, eventStreamType, isEventStream } from './event-stream-reader.ts';
import { type PreparedCall, textEstimate } from './prepared-call.ts';
import { believedOfAudio, type Heard, readTranscript, roughTokens } from './transcript-answer.ts';
import { TranscriptChunks } from './transcript-chunks.ts';
import { transcriptUseMax } from './usage-bound.ts';
import { isJson, WholeAnswerReader } from './whole-answer-reader.ts';

/** The tokens per second of speech, heard and written, that token limits count before a call. */
const audioTokensPerSecond = 10;
const textTokensPerSecond = 10;

/** The formats that are not JSON. */
const textFormats: ReadonlySet<string> = new Set(['text', 'srt', 'vtt']);
/** OpenAI's type for all of them: some clients, such as its own for .NET, take any other type for JSON. */
const textType = 'text/plain; charset=utf-8';

/** How many bytes a character of base64 stands for. */
const base64Share = 3 / 4;

const pageType = /^text\/html/i;
/** How a page begins; whisper.cpp calls plain text a page as well. */
const markup = /^\s*<[a-z!?/]/i;
const markupBytes = 64;

/** Reads a form with audio to transcribe or translate. */
export async function prepareTranscription(request: InvokeRequest, tools: CallTools): Promise<PreparedCall> {
  const form = await readAudioForm(request);
  const length = new AudioLength(form.file, tools.audioLengths);
  const seconds = Math.ceil(length.estimateMs / 1000);
  return {
    model: form.model,
    streamed: form.streamed,
    background: form.background,
    estimate: {
      ...textEstimate(seconds * audioTokensPerSecond, seconds * textTokensPerSecond),
      heard: transcriptUseMax(length.estimateMs, tokensBeside(form)),
    },
    contentType: form.contentType,
    bodyFor(deployment) {
      // Plain text states no length, and streams seldom do: the file is read while the upstream listens.
      if (form.streamed || textFormats.has(form.responseFormat)) length.begin();
      return form.bodyFor(deployment);
    },
    // Some models do not stream and answer whole even when asked to.
    reader: (head, bound) => {
      const heard = { length, besideBytes: form.besideBytes, bound };
      return form.streamed && isEventStream(head)
        ? transcriptEvents(heard, tools)
        : wholeTranscript(form, heard, tools, head);
    },
  };
}

/** The most tokens, as budgets hold them, of what was sent beside the file: of words no token is shorter than a byte. */
function tokensBeside({ besideBytes, recordingsBytes }: Pick<AudioForm, 'besideBytes' | 'recordingsBytes'>): number {
  return recordingsBytes.reduce(
    (tokens, bytes) => tokens - bytes + transcriptUseMax(usualDurationMs(bytes * base64Share), 0).inputTokens,
    besideBytes,
  );
}

const transcriptEvents = (heard: Heard, tools: Pick<CallTools, 'tokenizer'>): EventStreamReader =>
  new EventStreamReader({
    lastEvent: 'transcript.text.done',
    deltaEvent: 'transcript.text.delta',
    segmentEvent: 'transcript.text.segment',
    chunks: new TranscriptChunks(),
    measure: ({ usage, said, lastEvents }) => (usage === null && said.pieces === 0 && lastEvents === 0 ? {} : null),
    async counted({ usage, said, lastText }) {
      const writtenTokens = Math.max(said.pieces, roughTokens(Math.max(said.length, lastText.length)));
      const used = (await believedOfAudio(usage, heard, writtenTokens)) ?? {
        outputTokens: await said.tokens(await tools.tokenizer(), lastText),
      };
      return { ...used, audioMs: used.audioMs ?? (await heard.length.measuredMs({ writtenTokens })) };
    },
  });

/** Null when the client asked for text and the type, which alone can tell, says that the answer is an error. */
function wholeTranscript(
  { responseFormat, streamed }: { responseFormat: string; streamed: boolean },
  heard: Heard,
  tools: CallTools,
  head: UpstreamHead,
): WholeAnswerReader | null {
  const isText = textFormats.has(responseFormat);
  // vLLM wraps plain text in JSON as well.
  const readsJson = !isText || (responseFormat === 'text' && isJson(head));
  if (!readsJson && isJson(head)) return null;
  const mayBePage = !readsJson && pageType.test(head.header('content-type') ?? '');
  const asEvents = streamed && !isText;
  const rules = { isJson: readsJson, isText, asEvents, heard, tools };
  const contentType = asEvents ? eventStreamType : isText ? textType : undefined;
  return new WholeAnswerReader(
    (body) => (mayBePage && markup.test(body.toString('latin1', 0, markupBytes)) ? null : readTranscript(body, rules)),
    { contentType },
  );
}
