import { UpstreamDialect } from '#gen/modelgateway/models/v1/model_pb.ts';
import { cancelled, ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';
import { readUsage } from '../bytes/reported-usage.ts';
import type { DeploymentRuntime, Run, Verdict } from '../catalog/deployment-runtime.ts';
import { chooseDeployment } from '../domain/routing.ts';
import { failedInEvent, upstreamFault } from '../inference/upstream-errors.ts';
import { measuresOf } from '../inference/usage-bound.ts';
import type { Upstream, UpstreamSocket } from '../upstream/upstream.ts';
import type { BackendContext } from './backend.ts';
import { Resampler, sampleRateOf, samplesMs, samplesToBytes } from './pcm.ts';
import {
  durationUsage,
  type Transcriber,
  type Transcript,
  type Utterance,
  type UtteranceOptions,
} from './transcriber.ts';

/** The realtime endpoint of vLLM takes 16-bit samples at this rate. */
const upstreamRate = 16_000;
/** How long vLLM may take for the rest of a transcript once all audio is there, in milliseconds. */
const finishTimeoutMs = 60_000;

/**
 * Transcribes utterances while they are spoken, with vLLM's realtime endpoint: one connection per utterance, since a connection has one
 * generation at a time. An utterance whose connection could not be opened goes to `fallback`.
 */
export const vllmTranscriber = (context: BackendContext, fallback: Transcriber): Transcriber => ({
  begin: (options) => new VllmUtterance(context, options, fallback),
});

class VllmUtterance implements Utterance {
  readonly #context: BackendContext;
  readonly #options: UtteranceOptions;
  readonly #fallback: Transcriber;
  readonly #resampler: Resampler;
  readonly #transcript = Promise.withResolvers<Transcript>();
  /** Everything heard until the connection is open; empty afterwards. */
  #heard: Int16Array[] = [];
  #heardBytes = 0;
  #samples = 0;
  #socket: UpstreamSocket | null = null;
  #isOpen = false;
  #isFinished = false;
  #useFallback: Utterance | null = null;
  #run: Run | null = null;
  #timer: NodeJS.Timeout | undefined;
  readonly #onAbort = (): void => this.abort();

  constructor(context: BackendContext, options: UtteranceOptions, fallback: Transcriber) {
    this.#context = context;
    this.#options = options;
    this.#fallback = fallback;
    this.#resampler = new Resampler(sampleRateOf(options.config.format), upstreamRate);
    // Nobody waits for the transcript after an abort.
    this.#transcript.promise.catch(() => {});
    context.signal.addEventListener('abort', this.#onAbort, { once: true });
    const ofDialect = context.model().deployments.filter(({ settings }) => settings.dialect === UpstreamDialect.VLLM);
    const deployment = chooseDeployment(ofDialect, new Set());
    if (deployment?.upstream.openSocket == null) this.#fallBack();
    else this.#connect(deployment, deployment.upstream.openSocket);
  }

  hear(samples: Int16Array): void {
    this.#samples += samples.length;
    if (this.#useFallback !== null) this.#useFallback.hear(samples);
    else if (this.#isOpen) this.#send(samples);
    else {
      this.#heard.push(samples);
      this.#heardBytes += samples.byteLength;
    }
  }

  get heldBytes(): number {
    if (this.#useFallback !== null) return this.#useFallback.heldBytes;
    return this.#heardBytes + (this.#socket?.waitingBytes ?? 0);
  }

  finish(): Promise<Transcript> {
    this.#isFinished = true;
    if (this.#useFallback !== null) return this.#useFallback.finish();
    if (this.#isOpen && this.#socket !== null) this.#sendFinal();
    return this.#transcript.promise;
  }

  abort(): void {
    this.#useFallback?.abort();
    this.#end({ kind: 'none' });
    this.#transcript.reject(cancelled());
  }

  #connect(deployment: DeploymentRuntime, open: NonNullable<DeploymentRuntime['upstream']['openSocket']>): void {
    const run = deployment.start();
    this.#run = run;
    this.#options.item.call.deploymentId = deployment.id;
    this.#socket = open('/realtime', {
      onOpen: () => {
        this.#isOpen = true;
        run.answered();
        this.#sendJson({ type: 'session.update', model: deployment.upstreamModel });
        // Generation begins with the first commit; the final one ends it.
        this.#sendJson({ type: 'input_audio_buffer.commit' });
        for (const samples of this.#heard) this.#send(samples);
        this.#heard = [];
        this.#heardBytes = 0;
        if (this.#isFinished) this.#sendFinal();
      },
      onText: (text) => this.#take(text, deployment.upstream),
      onClose: (reason) => {
        if (this.#isOpen) this.#fail(upstreamFault(reason), { kind: 'bad', message: reason });
        else this.#fallBack();
      },
    });
  }

  #take(text: string, upstream: Pick<Upstream, 'redact'>): void {
    let event: Record<string, unknown>;
    try {
      event = JSON.parse(text);
    } catch {
      this.#fail(upstreamFault('an event is no JSON'), { kind: 'bad', message: 'an event is no JSON' });
      return;
    }
    switch (event?.type) {
      case 'transcription.delta':
        if (typeof event.delta === 'string' && event.delta !== '' && !this.#options.onDelta(event.delta)) {
          this.#fail(upstreamFault('it says more than can be relayed'), { kind: 'none' });
        }
        return;
      case 'transcription.done': {
        const usage = readUsage(event.usage);
        const reported = usage && measuresOf(usage);
        const audioMs = samplesMs(this.#options.config.format, this.#samples);
        this.#transcript.resolve({
          text: typeof event.text === 'string' ? event.text : '',
          usage:
            reported === null
              ? durationUsage(audioMs)
              : {
                  type: 'tokens',
                  input_tokens: reported.inputTokens,
                  output_tokens: reported.outputTokens,
                  total_tokens: usage!.totalTokens,
                },
          reported,
        });
        this.#end({ kind: 'good' });
        return;
      }
      case 'error': {
        const { error, verdict } = failedInEvent(text, upstream);
        this.#fail(error, verdict);
      }
    }
  }

  #send(samples: Int16Array): void {
    const audio = samplesToBytes(this.#resampler.take(samples)).toString('base64');
    if (audio !== '') this.#sendJson({ type: 'input_audio_buffer.append', audio });
  }

  #sendFinal(): void {
    this.#sendJson({ type: 'input_audio_buffer.commit', final: true });
    this.#timer = setTimeout(
      () => this.#fail(upstreamTimeout(), { kind: 'bad', message: 'a transcript did not end' }),
      finishTimeoutMs,
    );
  }

  #sendJson(event: object): void {
    this.#socket?.send(JSON.stringify(event));
  }

  /** Transcribing files works even where WebSockets do not. */
  #fallBack(): void {
    this.#end({ kind: 'none' });
    const utterance = this.#fallback.begin(this.#options);
    this.#useFallback = utterance;
    for (const samples of this.#heard) utterance.hear(samples);
    this.#heard = [];
    if (this.#isFinished) utterance.finish().then(this.#transcript.resolve, this.#transcript.reject);
  }

  #fail(error: GatewayError, verdict: Verdict): void {
    this.#transcript.reject(error);
    this.#end(verdict);
  }

  #end(verdict: Verdict): void {
    clearTimeout(this.#timer);
    this.#context.signal.removeEventListener('abort', this.#onAbort);
    this.#socket?.close();
    this.#socket = null;
    this.#run?.end(verdict);
    this.#run = null;
  }
}

const upstreamTimeout = (): GatewayError =>
  gatewayError(ErrorReason.UPSTREAM_TIMEOUT, 'The upstream of this model did not finish in time.');
