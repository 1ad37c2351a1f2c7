import { randomUUID } from 'node:crypto';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { asBuffer } from '#shared/as-buffer.ts';
import { GrowingBuffer } from '#shared/growing-buffer.ts';
import { withoutMark } from '../bytes/byte-order-mark.ts';
import { readUsage } from '../bytes/reported-usage.ts';
import { errorInBody } from '../bytes/stream-error.ts';
import type { Verdict } from '../catalog/deployment-runtime.ts';
import { Attempts } from '../inference/attempts.ts';
import type { PulledExchange } from '../inference/exchange.ts';
import { type PreparedCall, textEstimate } from '../inference/prepared-call.ts';
import { exchangeError, failedAsSaid, failedBy, upstreamFault } from '../inference/upstream-errors.ts';
import { measuresOf } from '../inference/usage-bound.ts';
import { WholeAnswerReader } from '../inference/whole-answer-reader.ts';
import type { BackendContext } from './backend.ts';
import { joinSamples, sampleRateOf, samplesMs, wavFile } from './pcm.ts';
import { modelOf, type SessionConfig } from './session-config.ts';
import {
  durationUsage,
  type Transcriber,
  type Transcript,
  type Utterance,
  type UtteranceOptions,
} from './transcriber.ts';

/** The longest answer that is read, in bytes. */
const answerBytesMax = 4 * 1024 * 1024;

/** Transcribes utterances as files, by POST /audio/transcriptions, which any upstream supports. */
export const fileTranscriber = (context: BackendContext): Transcriber => ({
  begin: (options) => new FileUtterance(context, options),
});

class FileUtterance implements Utterance {
  readonly #context: BackendContext;
  readonly #options: UtteranceOptions;
  #pieces: Int16Array[] = [];
  /** Of the pieces, and then of the file. */
  heldBytes = 0;

  constructor(context: BackendContext, options: UtteranceOptions) {
    this.#context = context;
    this.#options = options;
  }

  hear(samples: Int16Array): void {
    this.#pieces.push(samples);
    this.heldBytes += samples.byteLength;
  }

  /** Nothing was begun: an upstream gets the whole file. */
  abort(): void {}

  async finish(): Promise<Transcript> {
    const { item, onDelta } = this.#options;
    const { signal, deps } = this.#context;
    const { call, audioMs } = this.#call();
    const attempts = new Attempts(deps.catalog, {
      model: this.#context.model(),
      call,
      metered: item.call,
      signal,
      operation: Operation.AUDIO_TRANSCRIPTIONS,
    });
    let isGood = false;
    try {
      let answered = await attempts.answered();
      for (;;) {
        const body = await wholeBody(answered.exchange, signal);
        const transcript = readAnswer(body, audioMs);
        if (transcript !== null) {
          isGood = true;
          if (transcript.text !== '') onDelta(transcript.text);
          return transcript;
        }
        const said = errorInBody(body);
        answered = await attempts.answeredElsewhere(
          said === null ? failedBy(upstreamFault('the answer is no transcript')) : failedAsSaid(answered, said),
        );
      }
    } finally {
      const failed: Verdict = signal.aborted ? { kind: 'none' } : { kind: 'bad', message: 'no transcript' };
      attempts.finish(isGood ? { kind: 'good' } : failed);
    }
  }

  /** The request for the transcript, which alone holds the sound from now on: a suspended `finish` would keep every copy that it made. */
  #call(): { call: PreparedCall; audioMs: number } {
    const { config } = this.#options;
    const samples = joinSamples(this.#pieces);
    this.#pieces = [];
    return {
      call: transcriptionOf(wavFile(samples, sampleRateOf(config.format)), config),
      audioMs: samplesMs(config.format, samples.length),
    };
  }
}

/** The request for a file's transcript. */
function transcriptionOf(wav: Buffer, config: SessionConfig): PreparedCall {
  const boundary = randomUUID();
  const field = (name: string, value: string): Buffer =>
    Buffer.from(`--${boundary}\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`);
  const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';
  const optional = ['language', 'prompt'].flatMap((name) => {
    const value = config.transcription?.[name];
    return isText(value) ? [field(name, value)] : [];
  });
  const lists = ['keywords', 'languages'].flatMap((name) =>
    [config.transcription?.[name]]
      .flat()
      .filter(isText)
      .map((value) => field(`${name}[]`, value)),
  );
  const fileHead = `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="speech.wav"\r\ncontent-type: audio/wav\r\n\r\n`;
  const rest = [
    field('response_format', 'json'),
    ...optional,
    ...lists,
    Buffer.from(fileHead),
    wav,
    Buffer.from(`\r\n--${boundary}--\r\n`),
  ];
  return {
    model: modelOf(config),
    streamed: false,
    background: false,
    estimate: textEstimate(0, 0),
    contentType: `multipart/form-data; boundary=${boundary}`,
    bodyFor: ({ upstreamModel }) => [field('model', upstreamModel), ...rest],
    // The body is read here, since the client gets it as events.
    reader: () => new WholeAnswerReader(() => null),
  };
}

async function wholeBody(exchange: PulledExchange, signal: AbortSignal): Promise<Buffer> {
  const body = new GrowingBuffer();
  for (;;) {
    const event = await exchange.next(signal);
    if (event.kind === 'data') {
      body.appendWhole(asBuffer(event.chunk));
      if (body.length > answerBytesMax) throw upstreamFault('the transcript is too long');
    } else if (event.kind === 'failed') {
      throw exchangeError(event.failure);
    } else if (event.kind === 'end') {
      return withoutMark(body.take());
    }
  }
}

/** Returns null when it is no transcript. */
function readAnswer(body: Buffer, audioMs: number): Transcript | null {
  let json: { text?: unknown; usage?: unknown };
  try {
    json = JSON.parse(body.toString('utf8'));
  } catch {
    return null;
  }
  if (typeof json?.text !== 'string') return null;
  if (errorInBody(body) !== null) return null;
  const usage = readUsage(json.usage);
  return {
    text: json.text,
    usage: usage === null ? durationUsage(audioMs) : (json.usage as object),
    reported: usage === null ? null : measuresOf(usage),
  };
}
