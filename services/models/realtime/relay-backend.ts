import { cancelled, ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';
import { isObject } from '#shared/is-object.ts';
import { countOr0, readUsage } from '../bytes/reported-usage.ts';
import type { DeploymentRuntime, Run, Verdict } from '../catalog/deployment-runtime.ts';
import { measuresOf } from '../inference/whole-answer-reader.ts';
import type { UpstreamSocket } from '../upstream/upstream.ts';
import type { Backend, BackendContext } from './backend.ts';
import type { MeteredItem } from './metered-item.ts';
import { sampleBytesOf, sampleRateOf } from './pcm.ts';
import { gaSession, initialConfig, type SessionConfig } from './session-config.ts';
import { durationUsage } from './transcriber.ts';

/** Audio that may wait for the upstream before the client has to, in bytes. */
const waitingBytesMax = 8 * 1024 * 1024;
const waitMs = 10;
/** How long the upstream may take for the transcripts of what was committed when the session leaves it, in milliseconds. */
const finishTimeoutMs = 60_000;

/** Of events to which the client gave no id. */
const ownNamePrefix = 'event_gateway_';

const itemEvent = 'conversation.item.input_audio_transcription.';

type Item = { metered: MeteredItem; audioMs: number };
type UpstreamEvent = { type?: unknown; item_id?: unknown; [field: string]: unknown };

/** Relays a session to an upstream which speaks the same protocol, and meters what goes by. */
export class RelayBackend implements Backend {
  readonly #context: BackendContext;
  readonly #deployment: DeploymentRuntime;
  readonly #socket: UpstreamSocket;
  readonly #run: Run;
  readonly #items = new Map<string, Item>();
  /** Those whose transcript was told, and which are metered: an upstream that tells it again says nothing new. */
  readonly #ended = new Set<string>();
  /** When speech began, by item, in milliseconds of the session. */
  readonly #speechStarts = new Map<string, number>();
  #config: SessionConfig = initialConfig;
  /** Audio since the last commit, for upstreams that do not say how long an item is. */
  #appendedMs = 0;
  /** The client's commits which the upstream has not answered, in order, and how much audio each has. */
  readonly #commits: { eventId: string; audioMs: number }[] = [];
  /** Events that were sent, to name those which the client did not. */
  #sent = 0;
  /** Whether the client has appended audio behind its last commit. */
  #isAppended = false;
  /** Events are taken one by one: metering may wait for the journal. */
  #taking: Promise<void> = Promise.resolve();
  #closed = false;

  private constructor(context: BackendContext, deployment: DeploymentRuntime, socket: UpstreamSocket, run: Run) {
    this.#context = context;
    this.#deployment = deployment;
    this.#socket = socket;
    this.#run = run;
  }

  /** Connects to a deployment. Resolves with why not when it does not take WebSockets. */
  static connect(context: BackendContext, deployment: DeploymentRuntime): Promise<RelayBackend | string> {
    const { openSocket } = deployment.upstream;
    if (openSocket === null) return Promise.resolve('it has no WebSockets');
    return new Promise((resolve) => {
      let backend: RelayBackend | null = null;
      const run = deployment.start();
      const socket = openSocket('/realtime?intent=transcription', {
        onOpen: () => {
          run.answered();
          backend = new RelayBackend(context, deployment, socket, run);
          resolve(backend);
        },
        onText: (text) => backend?.take(text),
        onClose: (reason) => {
          if (backend !== null) {
            backend.lost(reason);
          } else {
            run.end({ kind: 'none' });
            resolve(reason);
          }
        },
      });
    });
  }

  configure(config: SessionConfig, causeId: string | null): void {
    this.#config = config;
    this.#send({ type: 'session.update', session: gaSession(config, this.#deployment.upstreamModel) }, causeId);
  }

  async append(audio: Buffer, causeId: string | null): Promise<void> {
    await this.#prepare();
    const bytesPerMs = (sampleRateOf(this.#config.format) * sampleBytesOf(this.#config.format)) / 1000;
    this.#appendedMs += audio.length / bytesPerMs;
    // Written anew: of a member that stands there twice the upstream could read the other.
    this.#send({ type: 'input_audio_buffer.append', audio: audio.toString('base64') }, causeId);
    this.#isAppended = true;
    if (this.#socket.waitingBytes > waitingBytesMax) await this.#drained();
  }

  commit(causeId: string | null): void {
    this.#isAppended = false;
    const eventId = this.#send({ type: 'input_audio_buffer.commit' }, causeId);
    this.#commits.push({ eventId, audioMs: this.#appendedMs });
    this.#appendedMs = 0;
  }

  clear(causeId: string | null): void {
    this.#appendedMs = 0;
    this.#isAppended = false;
    this.#speechStarts.clear();
    this.#send({ type: 'input_audio_buffer.clear' }, causeId);
  }

  get hasUncommitted(): boolean {
    if (this.#config.turnDetection === null) return this.#isAppended;
    // Where the upstream listens for speech, all else that was appended is silence.
    return this.#speechStarts.size > 0 && this.#commits.length === 0;
  }

  finish(): Promise<void> {
    const expired = AbortSignal.timeout(finishTimeoutMs);
    return this.#until(() => expired.aborted || (this.#items.size === 0 && this.#commits.length === 0));
  }

  async close(): Promise<void> {
    this.#end({ kind: 'good' });
    this.#socket.close();
    await this.#taking;
    await this.#failItems(cancelled());
  }

  /** Takes an event of the upstream. */
  take(text: string): void {
    this.#taking = this.#taking
      .then(() => (this.#closed ? undefined : this.#relay(text)))
      .catch((error) => this.#context.outbox.fail(error));
  }

  /** The upstream has ended the session. */
  lost(reason: string): void {
    if (this.#closed) return;
    const error = gatewayError(ErrorReason.UPSTREAM_ERROR, 'The upstream of this model ended the session.', {
      internal: reason,
    });
    this.#end({ kind: 'bad', message: `a session was ended: ${reason}` });
    this.#taking = this.#taking.then(async () => {
      await this.#failItems(error);
      this.#context.outbox.fail(error);
    });
  }

  /** Makes sure that an item which begins now can be paid for. Those that run were, and go on: near its limit a budget holds all its room for them. */
  async #prepare(): Promise<void> {
    if (this.#items.size > 0 && this.#context.isRefused) return;
    await this.#context.prepare().catch((refusal) => {
      if (this.#items.size === 0) throw refusal;
    });
  }

  async #relay(text: string): Promise<void> {
    let event: UpstreamEvent;
    try {
      event = JSON.parse(text);
    } catch {
      this.lost('an event is no JSON');
      return;
    }
    await this.#prepare();
    const type = String(event?.type);
    const itemId = typeof event.item_id === 'string' ? event.item_id : '';
    if (this.#ended.has(itemId) && type.startsWith(itemEvent)) return;
    switch (type) {
      // The client has had its own already.
      case 'session.created':
      case 'transcription_session.created':
        return;
      case 'session.updated':
      case 'transcription_session.updated':
        // In the client's words, with its name of the model.
        this.#context.sayUpdated();
        return;
      case 'input_audio_buffer.speech_started':
        this.#speechStarts.set(itemId, Number(event.audio_start_ms));
        break;
      case 'input_audio_buffer.speech_stopped':
        // 0 when it is not known, or cannot be true: what was appended counts then.
        this.#item(itemId).audioMs = countOr0(
          Math.round(Number(event.audio_end_ms) - (this.#speechStarts.get(itemId) ?? Number.NaN)),
        );
        this.#speechStarts.delete(itemId);
        break;
      case 'input_audio_buffer.committed': {
        const item = this.#item(itemId);
        const audioMs = this.#committedMs();
        this.#speechStarts.delete(itemId);
        item.audioMs ||= Math.round(audioMs);
        break;
      }
      case `${itemEvent}delta`:
        await this.#item(itemId).metered.delta();
        break;
      case `${itemEvent}completed`:
        await this.#completed(itemId, event);
        return;
      case `${itemEvent}failed`: {
        const { metered, audioMs } = this.#item(itemId);
        this.#forget(itemId);
        await metered.fail(upstreamFailed(), audioMs);
        this.#context.outbox.pass(this.#deployment.upstream.redact(text));
        return;
      }
      case 'error':
        this.#context.outbox.pass(this.#deployment.upstream.redact(this.#refused(event, text)));
        return;
    }
    this.#context.outbox.pass(text);
  }

  /** How much audio the upstream has committed: what the client did before that, or all that came when the upstream does so by itself. */
  #committedMs(): number {
    const ofClient = this.#commits.shift();
    if (ofClient !== undefined) return ofClient.audioMs;
    const audioMs = this.#appendedMs;
    this.#appendedMs = 0;
    return audioMs;
  }

  /**
   * The upstream has refused something: a commit when it says so, or does not say what. That one's audio counts with what is committed
   * next, so that none goes by unmetered when it was something else. Returns the error in the client's words.
   */
  #refused(event: UpstreamEvent, text: string): string {
    const error = isObject(event.error) ? event.error : {};
    const eventId = typeof error.event_id === 'string' ? error.event_id : null;
    const at = eventId === null ? 0 : this.#commits.findIndex((commit) => commit.eventId === eventId);
    if (at >= 0) {
      const [commit] = this.#commits.splice(at, 1);
      const next = this.#commits[at];
      const audioMs = commit?.audioMs ?? 0;
      if (next === undefined) this.#appendedMs += audioMs;
      else next.audioMs += audioMs;
    }
    const isOwnName = eventId?.startsWith(ownNamePrefix) === true;
    return isOwnName ? JSON.stringify({ ...event, error: { ...error, event_id: null } }) : text;
  }

  async #completed(itemId: string, event: UpstreamEvent): Promise<void> {
    const { metered, audioMs } = this.#item(itemId);
    this.#forget(itemId);
    const usage = readUsage(event.usage);
    await metered.complete(usage === null ? null : measuresOf(usage), audioMs);
    // Clients rely on it (openai-contract.md section 5), and not every upstream says it.
    this.#context.outbox.pass(JSON.stringify(usage === null ? { ...event, usage: durationUsage(audioMs) } : event));
  }

  /** The item; some upstreams transcribe it before they say that it was committed. */
  #item(itemId: string): Item {
    let item = this.#items.get(itemId);
    if (item === undefined) {
      item = { metered: this.#context.newItem(), audioMs: 0 };
      item.metered.call.deploymentId = this.#deployment.id;
      this.#items.set(itemId, item);
    }
    return item;
  }

  #forget(itemId: string): void {
    this.#items.delete(itemId);
    // Without a name nobody can tell one from another.
    if (itemId !== '') this.#ended.add(itemId);
  }

  async #failItems(error: GatewayError): Promise<void> {
    const items = [...this.#items.values()];
    this.#items.clear();
    await Promise.all(items.map(({ metered, audioMs }) => metered.fail(error, audioMs)));
  }

  /** Returns the id by which the upstream names the event when it refuses it. */
  #send(event: object, causeId: string | null): string {
    this.#sent += 1;
    const event_id = causeId ?? `${ownNamePrefix}${this.#sent}`;
    this.#socket.send(JSON.stringify({ event_id, ...event }));
    return event_id;
  }

  /** Resolves once there is room for more, or nobody is there to take it. */
  #drained(): Promise<void> {
    return this.#until(() => this.#socket.waitingBytes <= waitingBytesMax / 2);
  }

  /** Nobody closes this backend before it has let go of the client's last event. */
  async #until(isSo: () => boolean): Promise<void> {
    const { signal } = this.#context;
    // The socket has no event for this.
    while (!this.#closed && !signal.aborted && !isSo()) await new Promise((resolve) => setTimeout(resolve, waitMs));
  }

  #end(verdict: Verdict): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#run.end(verdict);
  }
}

const upstreamFailed = (): GatewayError =>
  gatewayError(ErrorReason.UPSTREAM_ERROR, 'The upstream of this model could not transcribe this item.');
