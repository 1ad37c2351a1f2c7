import type { CallerConstraints, TranscribeStart } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { allowsModel } from '#shared/caller-constraints.ts';
import { GatewayError, invalidRequest, modelNotAllowed } from '#shared/errors.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import { admitModel } from '../inference/admission.ts';
import { type Backend, BackendContext, type SessionDeps } from './backend.ts';
import { type ClientEvent, eventIdOf, parseEvent, readClientEvent } from './client-event.ts';
import { openBackend } from './open-backend.ts';
import { errorEvent, newSessionId, type ServerEvent } from './server-event.ts';
import type { ServerEvents } from './server-events.ts';
import {
  betaSession,
  gaSession,
  initialConfig,
  modelOf,
  promptBytesOf,
  type SessionConfig,
  updatedConfig,
} from './session-config.ts';

/** How long a session lasts, in seconds (openai-contract.md section 5). */
const sessionSeconds = 3_600;

/** One realtime transcription session: its configuration, the model it names and what answers it. */
export class TranscriptionSession {
  readonly #deps: SessionDeps;
  readonly #caller: Caller;
  #constraints: CallerConstraints | undefined;
  readonly #events: ServerEvents;
  readonly #signal: AbortSignal;
  readonly #id = newSessionId();
  readonly #expiresAtSeconds: number;
  #config: SessionConfig;
  /** The shape of the client's last event. */
  #shape: 'ga' | 'beta' = 'ga';
  #backend: Backend | null = null;
  #context: BackendContext | null = null;
  #tokensUsedBefore = 0;

  /** Throws when the start names a model that the caller may not use now. */
  constructor(options: {
    deps: SessionDeps;
    caller: Caller;
    start: TranscribeStart;
    events: ServerEvents;
    signal: AbortSignal;
  }) {
    this.#deps = options.deps;
    this.#caller = options.caller;
    this.#constraints = options.start.constraints;
    this.#events = options.events;
    this.#signal = options.signal;
    this.#expiresAtSeconds = Math.floor(options.deps.clock.now() / 1000) + sessionSeconds;
    this.#config = startConfig(options.start);
    if (modelOf(this.#config) !== '') this.#admit();
  }

  get tokensUsed(): number {
    return this.#tokensUsedBefore + (this.#context?.tokensUsed ?? 0);
  }

  /** The first event of every session. */
  created(): ServerEvent {
    return { type: 'session.created', session: this.#described(gaSession(this.#config)) };
  }

  /** Handles a client's event. One that cannot be read is answered with an error; rejects when the session cannot go on. */
  async take(text: string): Promise<void> {
    let json: unknown;
    let event: ClientEvent;
    let config: SessionConfig;
    try {
      json = parseEvent(text);
      event = readClientEvent(json);
      config = event.type === 'update' ? updatedConfig(this.#config, event.session) : this.#config;
      if (modelOf(config) === '' && event.type !== 'update') throw noModel();
      if (this.#backend?.hasUncommitted && isHeardOtherwise(this.#config, config)) throw bufferInUse();
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      this.#events.emit(errorEvent(error, eventIdOf(json)));
      return;
    }
    if (event.type !== 'update') await this.#pass(await this.#enterBackend(), event);
    else await this.#update(config, event);
  }

  /** Changes the configuration, unless an upstream refuses that. */
  async #update(
    config: SessionConfig,
    { shape, eventId }: { shape: 'ga' | 'beta'; eventId: string | null },
  ): Promise<void> {
    const model = modelOf(config);
    if (model !== modelOf(this.#config)) {
      await this.finish();
      await this.#leaveBackend();
    }
    this.#shape = shape;
    if (model === '') {
      this.#config = config;
      this.#sayUpdated();
      return;
    }
    // The backend begins with what it keeps if it refuses the update.
    const before = { ...this.#config, transcription: { ...this.#config.transcription, model } };
    this.#config = before;
    const backend = await this.#enterBackend(config);
    this.#config = config;
    this.#context!.expectPrompt(promptBytesOf(config));
    if (!(await backend.configure(config, eventId))) this.#config = before;
  }

  /** Applies new constraints from now on: the caller's key was changed. Rejects when it may no longer use the session's model. */
  async constrain(constraints: CallerConstraints): Promise<void> {
    this.#constraints = constraints;
    const model = modelOf(this.#config);
    if (model !== '' && !allowsModel(constraints, model)) throw modelNotAllowed(model);
    await this.#context?.constrain(constraints);
  }

  /** Waits for the transcripts of what was committed. */
  async finish(): Promise<void> {
    await this.#backend?.finish();
  }

  async close(): Promise<void> {
    await this.#leaveBackend();
  }

  #pass(backend: Backend, event: Exclude<ClientEvent, { type: 'update' }>): Promise<void> | void {
    switch (event.type) {
      case 'append':
        return backend.append(event.audio, event.eventId);
      case 'commit':
        return backend.commit(event.eventId);
      case 'clear':
        return backend.clear(event.eventId);
      default:
        event satisfies never;
    }
  }

  /**
   * The backend of the session; its model is admitted, and the backend opened, at the first event that needs it. `coming` is the
   * configuration that it is about to get: room that was held for less would be given back for it, and might go to somebody else.
   */
  async #enterBackend(coming = this.#config): Promise<Backend> {
    if (this.#backend !== null) return this.#backend;
    this.#admit();
    this.#context = new BackendContext({
      deps: this.#deps,
      caller: this.#caller,
      constraints: this.#constraints,
      modelName: modelOf(this.#config),
      events: this.#events,
      signal: this.#signal,
      sayUpdated: () => this.#sayUpdated(),
    });
    for (const config of [this.#config, coming]) this.#context.expectPrompt(promptBytesOf(config));
    await this.#context.prepare();
    this.#backend = await openBackend(this.#context, this.#config);
    return this.#backend;
  }

  async #leaveBackend(): Promise<void> {
    const [backend, context] = [this.#backend, this.#context];
    this.#backend = null;
    await backend?.close();
    await context?.close();
    this.#tokensUsedBefore += context?.tokensUsed ?? 0;
    this.#context = null;
  }

  #admit(): void {
    const { catalog, clock } = this.#deps;
    const asked = {
      name: modelOf(this.#config),
      operation: Operation.REALTIME_TRANSCRIPTION,
      tenantId: this.#caller.tenantId,
      constraints: this.#constraints,
    };
    admitModel(catalog, asked, clock.now());
  }

  #sayUpdated(): void {
    this.#events.emit(
      this.#shape === 'ga'
        ? { type: 'session.updated', session: this.#described(gaSession(this.#config)) }
        : { type: 'transcription_session.updated', session: this.#described(betaSession(this.#config)) },
    );
  }

  /** The session as clients see it, with its configuration in one of the two shapes. */
  #described(config: object): object {
    return {
      id: this.#id,
      object: 'realtime.transcription_session',
      expires_at: this.#expiresAtSeconds,
      ...config,
    };
  }
}

/** The initial configuration of a session: that of its client secret, and the model of its URL. */
function startConfig({ sessionJson, model }: TranscribeStart): SessionConfig {
  const config = sessionJson === '' ? initialConfig : updatedConfig(initialConfig, parseSession(sessionJson));
  return model === '' ? config : { ...config, transcription: { ...config.transcription, model } };
}

function parseSession(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    throw invalidRequest('session_json', '`session_json` is not valid JSON.');
  }
}

/** Whether a change makes audio mean something else, or sends it elsewhere. */
const isHeardOtherwise = (before: SessionConfig, after: SessionConfig): boolean =>
  modelOf(before) !== modelOf(after) || JSON.stringify(before.format) !== JSON.stringify(after.format);

const bufferInUse = (): GatewayError =>
  invalidRequest(
    undefined,
    'There is uncommitted audio: commit or clear it before you change the model or the audio format.',
    'input_audio_buffer_not_empty',
  );

const noModel = (): GatewayError =>
  invalidRequest(
    'session.audio.input.transcription.model',
    'Name a model first, with a `session.update`.',
    'missing_required_field',
  );
