import { createHash } from 'node:crypto';
import pLimit, { type LimitFunction } from 'p-limit';
import { UpstreamDialect } from '#gen/modelgateway/models/v1/model_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { Clock } from '#shared/clock.ts';
import { type OperationSending, takesForm } from '#shared/operations.ts';
import { type AudioLengthReader, createAudioLengthReader } from '../../audio/audio-length-reader.ts';
import { type Tokenizer, tokenizerOnDemand } from '../../bytes/tokens.ts';
import { bodyStream } from '../request-body.ts';
import type { Upstream, UpstreamRequest } from '../upstream.ts';
import { type Answer, errorAnswer, Refusal } from './answer.ts';
import type { Call } from './call.ts';
import { chatCompletions } from './chat.ts';
import { textCompletions } from './completions.ts';
import { embeddings } from './embeddings.ts';
import { parseJsonObject } from './fields.ts';
import { readForm } from './form.ts';
import { imageGenerations } from './images.ts';
import { failureCounter, type SandboxKnobs } from './knobs.ts';
import { type SandboxModel, sandboxModels } from './models.ts';
import { Playback } from './playback.ts';
import { speech } from './speech.ts';
import { type FormCall, transcriptions, translations } from './transcriptions.ts';

type SandboxDeps = {
  clock: Clock;
  knobs?: SandboxKnobs;
};

/** What answers are made with. */
type AnswerTools = {
  clock: Clock;
  knobs: SandboxKnobs;
  failsNow(): boolean;
  tokenizer(): Promise<Tokenizer>;
  lengths: AudioLengthReader;
  /** Forms are read one after the other: they wait in files, where any number may, and each is held in memory while it is answered. */
  forms: LimitFunction;
};

/* How each operation is answered; one without a row does not compile. */
const jsonAnswers: Readonly<Record<OperationSending<'json'>, (call: Call) => Answer | Promise<Answer>>> = {
  [Operation.CHAT_COMPLETIONS]: chatCompletions,
  [Operation.COMPLETIONS]: textCompletions,
  [Operation.EMBEDDINGS]: embeddings,
  [Operation.IMAGES_GENERATIONS]: imageGenerations,
  [Operation.AUDIO_SPEECH]: speech,
};
const formAnswers: Readonly<Record<OperationSending<'form'>, (call: FormCall) => Promise<Answer>>> = {
  [Operation.AUDIO_TRANSCRIPTIONS]: transcriptions,
  [Operation.AUDIO_TRANSLATIONS]: translations,
};

/**
 * The sandbox provider: answers every operation from the request alone, without a network and without a model (decisions.md, Running it).
 * The same request gets the same answer, `created` aside.
 */
export function createSandbox({ clock, knobs = {} }: SandboxDeps): Upstream {
  const tools: AnswerTools = {
    clock,
    knobs,
    failsNow: failureCounter(knobs.errorRate),
    tokenizer: tokenizerOnDemand(),
    lengths: createAudioLengthReader(),
    forms: pLimit(1),
  };
  const running = new Set<Playback>();
  let closed = false;

  return {
    send(request, handler) {
      const { headTimeoutMs, idleTimeoutMs } = request;
      const playback = new Playback({
        handler,
        headTimeoutMs,
        idleTimeoutMs,
        onOver: (over) => running.delete(over),
      });
      running.add(playback);
      // Always a promise: no callback may come before send has returned the exchange.
      void play(tools, request, playback, () => closed);
      return playback;
    },

    // It transcribes files alone; what is said in a session is cut into such.
    openSocket: null,

    async listModels(signal) {
      signal.throwIfAborted();
      return sandboxModels.map(({ id, contextWindowTokens }) => ({
        id,
        contextWindow: contextWindowTokens,
        kinds: [],
        dialect: UpstreamDialect.SANDBOX,
      }));
    },

    async probe(signal) {
      signal.throwIfAborted();
    },

    // It has neither a key nor an address.
    redact: (text) => text,

    async close() {
      closed = true;
      for (const playback of running) playback.fail({ kind: 'reset', message: 'sandbox: closed' });
      await tools.lengths.close();
    },
  };
}

async function play(tools: AnswerTools, request: UpstreamRequest, playback: Playback, isClosed: () => boolean) {
  await undefined;
  if (isClosed()) return playback.fail({ kind: 'refused', message: 'sandbox: closed' });
  const reply = () => answerTo(tools, request);
  const { model, answer } = await (takesForm(request.operation) ? tools.forms(reply) : reply());
  const fails = model !== undefined && tools.failsNow();
  playback.play(fails ? errorAnswer(500, 'The sandbox was set to fail this call.') : answer, tools.knobs);
}

/** Answers a request; a refusal is an answer too. The model is known from the moment on that it was found. */
async function answerTo(
  tools: AnswerTools,
  request: UpstreamRequest,
): Promise<{ model?: SandboxModel; answer: Answer }> {
  let model: SandboxModel | undefined;
  try {
    // Not by node:stream/consumers, which copies the body once more into a blob.
    const body = Buffer.concat(await Array.fromAsync(bodyStream(request.body)));
    const tokens = await tools.tokenizer();
    if (takesForm(request.operation)) {
      const form = readForm(request.contentType, body);
      model = findModel(form.fields.get('model')?.at(-1), request.operation);
      const call = { model, form, tokens, lengths: tools.lengths };
      return { model, answer: await formAnswers[request.operation](call) };
    }
    const json = parseJsonObject(body);
    model = findModel(json.model, request.operation);
    const id = createHash('sha256').update(body).digest('hex').slice(0, 24);
    const created = Math.floor(tools.clock.now() / 1000);
    const operation = request.operation as OperationSending<'json'>;
    return { model, answer: await jsonAnswers[operation]({ model, json, id, created, tokens }) };
  } catch (error) {
    if (error instanceof Refusal) {
      return { model, answer: errorAnswer(error.status, error.message, error.param, error.code) };
    }
    return { model, answer: errorAnswer(500, `The sandbox failed: ${String(error)}`) };
  }
}

function findModel(id: unknown, operation: Operation): SandboxModel {
  if (id === undefined || id === null) throw new Refusal("Missing required parameter: 'model'.", { param: 'model' });
  const model = sandboxModels.find((candidate) => candidate.id === id);
  if (model === undefined) {
    throw new Refusal(`The model '${String(id)}' does not exist.`, {
      status: 404,
      param: 'model',
      code: 'model_not_found',
    });
  }
  if (!model.operations.includes(operation)) {
    throw new Refusal(`The model '${model.id}' does not support this operation.`, {
      param: 'model',
      code: 'invalid_value',
    });
  }
  return model;
}
