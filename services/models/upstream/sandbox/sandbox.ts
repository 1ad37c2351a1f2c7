import { createHash } from 'node:crypto';
import { UpstreamDialect } from '#gen/modelgateway/models/v1/model_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { asBuffer } from '#shared/as-buffer.ts';
import type { Clock } from '#shared/clock.ts';
import { takesForm } from '#shared/operations.ts';
import { type AudioLengthReader, createAudioLengthReader } from '../../audio/audio-length-reader.ts';
import { loadTokenizer, type Tokenizer } from '../../bytes/tokens.ts';
import { readBody } from '../request-body.ts';
import type { Upstream, UpstreamRequest } from '../upstream.ts';
import { type Answer, errorAnswer, Refusal } from './answer.ts';
import type { Call } from './call.ts';
import { chatCompletions } from './chat.ts';
import { textCompletions } from './completions.ts';
import { embeddings } from './embeddings.ts';
import { parseJsonObject } from './fields.ts';
import { imageGenerations } from './images.ts';
import { failureCounter, type SandboxKnobs } from './knobs.ts';
import { type SandboxModel, sandboxModels } from './models.ts';
import { parseMultipart } from './multipart.ts';
import { Playback } from './playback.ts';
import { speech } from './speech.ts';
import { transcriptions, translations } from './transcriptions.ts';

export type SandboxDeps = {
  clock: Clock;
  knobs?: SandboxKnobs;
};

type Respond = {
  clock: Clock;
  knobs: SandboxKnobs;
  failsNow(): boolean;
  tokenizer(): Promise<Tokenizer>;
  lengths: AudioLengthReader;
};

/**
 * The sandbox provider: answers every operation from the request alone, without a network and without a model (decisions.md, Running it).
 * The same request gets the same answer, `created` aside.
 */
export function createSandbox({ clock, knobs = {} }: SandboxDeps): Upstream {
  let loading: Promise<Tokenizer> | undefined;
  const respond: Respond = {
    clock,
    knobs,
    failsNow: failureCounter(knobs.errorRate),
    tokenizer: () => (loading ??= loadTokenizer()),
    lengths: createAudioLengthReader(),
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
      void play(respond, request, playback, () => closed);
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
      await respond.lengths.close();
    },
  };
}

async function play(respond: Respond, request: UpstreamRequest, playback: Playback, isClosed: () => boolean) {
  await undefined;
  if (isClosed()) return playback.fail({ kind: 'refused', message: 'sandbox: closed' });
  const { model, answer } = await answerTo(respond, request);
  const fails = model !== undefined && respond.failsNow();
  playback.play(fails ? errorAnswer(500, 'The sandbox was set to fail this call.') : answer, respond.knobs);
}

/** Answers a request; a refusal is an answer too. The model is known from the moment on that it was found. */
async function answerTo(respond: Respond, request: UpstreamRequest): Promise<{ model?: SandboxModel; answer: Answer }> {
  let model: SandboxModel | undefined;
  try {
    const body = asBuffer(await readBody(request.body));
    const tokens = await respond.tokenizer();
    if (takesForm(request.operation)) {
      const form = parseMultipart(request.contentType, body);
      model = findModel(form.fields.get('model')?.at(-1), request.operation);
      const operate = request.operation === Operation.AUDIO_TRANSCRIPTIONS ? transcriptions : translations;
      return { model, answer: await operate({ model, form, tokens, lengths: respond.lengths }) };
    }
    const json = parseJsonObject(body);
    model = findModel(json.model, request.operation);
    const id = createHash('sha256').update(body).digest('hex').slice(0, 24);
    const created = Math.floor(respond.clock.now() / 1000);
    return { model, answer: await operateOnJson(request.operation, { model, json, id, created, tokens }) };
  } catch (error) {
    if (error instanceof Refusal) {
      return { model, answer: errorAnswer(error.status, error.message, error.param, error.code) };
    }
    return { model, answer: errorAnswer(500, `The sandbox failed: ${String(error)}`) };
  }
}

/** The operations with a JSON body. */
function operateOnJson(operation: Operation, call: Call): Answer | Promise<Answer> {
  switch (operation) {
    case Operation.CHAT_COMPLETIONS:
      return chatCompletions(call);
    case Operation.COMPLETIONS:
      return textCompletions(call);
    case Operation.EMBEDDINGS:
      return embeddings(call);
    case Operation.IMAGES_GENERATIONS:
      return imageGenerations(call);
    case Operation.AUDIO_SPEECH:
      return speech(call);
    default:
      throw new Refusal('The sandbox does not know this operation.', { status: 404, code: 'unknown_url' });
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
