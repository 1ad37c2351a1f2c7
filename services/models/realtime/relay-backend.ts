import { randomUUID } from 'node:crypto';
import { cancelled, ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';
import { isObject } from '#shared/is-object.ts';
import { countOr0, readUsage } from '../bytes/reported-usage.ts';
import type { DeploymentRuntime, Run, Verdict } from '../catalog/deployment-runtime.ts';
import { failedInEvent, saidOfOwnAccount } from '../inference/upstream-errors.ts';
import { canTranscriptUse, measuresOf } from '../inference/usage-bound.ts';
import type { UpstreamSocket } from '../upstream/upstream.ts';
import type { Backend, BackendContext } from './backend.ts';
import type { MeteredItem } from './metered-item.ts';
import { sampleBytesOf, sampleRateOf } from './pcm.ts';
import { RelayedAudio } from './relayed-audio.ts';
import { waitingLengthMax, waitingMax } from './server-events.ts';
import { gaSession, promptBytesOf, type SessionConfig } from './session-config.ts';
import { durationUsage } from './transcriber.ts';

/** Bytes of events that may wait for the upstream before the client has to: some four seconds of audio. */
const waitingBytesMax = 256 * 1024;
const waitMs = 10;
/** When the session leaves the upstream: how long it may take for the transcripts of what was committed, in milliseconds. */
const finishTimeoutMs = 60_000;
/** How long an upstream may take to answer an update of the session, in milliseconds. From one that does not, no answers are awaited. */
const updateTimeoutMs = 5_000;

/**
 * The most items that may wait for their transcript: the session leaves an upstream with more, and the client has to wait long before that.
 */
const itemsMax = 1_000;
/** How many items are remembered whose transcript was passed on, and how many in which speech began. */
const endedMax = 1_000;
const speechStartsMax = 100;
const itemIdMax = 256;

/** For events to which the client gave no id. */
const ownNamePrefix = 'event_gateway_';

const itemEvent = 'conversation.item.input_audio_transcription.';

type Item = {
  /** The upstream's; empty where it gives none. */
  id: string;
  metered: MeteredItem;
  audioMs: number;
  /** Whether its audio is known to be committed. */
  isCommitted: boolean;
};
/** `isAsked`: whether its client is waiting to hear that the session was updated. */
type Update = { eventId: string; causeId: string | null; isAsked: boolean; isRefused: boolean };
type UpstreamEvent = Record<string, unknown>;

/** Relays a session to an upstream that speaks the same protocol, and meters what passes. */
export class RelayBackend implements Backend {
  readonly #context: BackendContext;
  readonly #deployment: DeploymentRuntime;
  readonly #socket: UpstreamSocket;
  readonly #run: Run;
  readonly #items = new Map<string, Item>();
  /** Items whose transcript was passed on and metered: an upstream that sends it again says nothing new. */
  readonly #ended = new Set<string>();
  /** When speech began, by item, in milliseconds of the session. */
  readonly #speechStarts = new Map<string, number>();
  #config: SessionConfig;
  /** The size of the largest prompt of the session: which of them the upstream used for an item, it does not say. */
  #promptBytesMax = 0;
  /** Whether the upstream was told the configuration: a session may have one from its start, and never be updated. */
  #isConfigured = false;
  /** The update that the upstream has yet to answer. */
  #update: Update | null = null;
  #answersUpdates = true;
  readonly #audio = new RelayedAudio();
  /** Whether it was logged that the upstream reported items that nobody committed. */
  #isUncommittedLogged = false;
  /** The number of events sent, to name those to which the client gave no id. */
  #sent = 0;
  /** Events are handled one by one: metering may wait for the journal. */
  #taking: Promise<void> = Promise.resolve();
  /** How many events of the upstream wait to be handled, and how many characters they have. */
  #waiting = 0;
  #waitingLength = 0;
  /** Whether the upstream has said anything. */
  #isHeard = false;
  #closed = false;

  private constructor(
    context: BackendContext,
    deployment: DeploymentRuntime,
    connected: { socket: UpstreamSocket; run: Run; config: SessionConfig },
  ) {
    this.#context = context;
    this.#deployment = deployment;
    this.#socket = connected.socket;
    this.#run = connected.run;
    this.#config = connected.config;
  }

  /** Connects to a deployment, whose run it then ends. Null, and the run goes on, if it accepts no WebSockets, or the session is over. */
  static connect(
    context: BackendContext,
    deployment: DeploymentRuntime,
    run: Run,
    config: SessionConfig,
  ): Promise<RelayBackend | null> {
    const { openSocket } = deployment.upstream;
    const { signal } = context;
    if (openSocket === null || signal.aborted) return Promise.resolve(null);
    const { promise, resolve } = Promise.withResolvers<RelayBackend | null>();
    let backend: RelayBackend | null = null;
    const socket = openSocket('/realtime?intent=transcription', {
      onOpen: () => {
        run.answered();
        backend = new RelayBackend(context, deployment, { socket, run, config });
        resolve(backend);
      },
      onText: (text) => backend?.take(text),
      onClose: (reason) => {
        if (backend !== null) backend.left(reason);
        else resolve(null);
      },
    });
    const giveUp = (): void => {
      socket.close();
      resolve(null);
    };
    signal.addEventListener('abort', giveUp);
    return promise.finally(() => signal.removeEventListener('abort', giveUp));
  }

  configure(config: SessionConfig, causeId: string | null): Promise<boolean> {
    return this.#configure(config, causeId, true);
  }

  /** What comes next waits for the answer: audio means something else after an update that was refused. */
  async #configure(config: SessionConfig, causeId: string | null, isAsked: boolean): Promise<boolean> {
    this.#promptBytesMax = Math.max(this.#promptBytesMax, promptBytesOf(config));
    const session = gaSession(config, this.#deployment.upstreamModel);
    // Its client cannot give the name of this to anything else, whose refusal would be taken for that of the update.
    const eventId = this.#send({ type: 'session.update', session }, ownNamePrefix + randomUUID());
    const update: Update = { eventId, causeId, isAsked, isRefused: false };
    this.#update = update;
    if (this.#answersUpdates) {
      const expired = AbortSignal.timeout(updateTimeoutMs);
      await this.#until(() => expired.aborted || this.#update === null);
      this.#answersUpdates = this.#update === null;
    }
    if (update.isRefused) return false;
    this.#config = config;
    this.#isConfigured = true;
    await this.#room();
    return true;
  }

  async append(audio: Buffer, causeId: string | null): Promise<void> {
    await this.#prepare();
    // Without its configuration, the upstream would take the audio for something else.
    if (!this.#isConfigured && !(await this.#configure(this.#config, null, false))) return;
    const bytesPerMs = (sampleRateOf(this.#config.format) * sampleBytesOf(this.#config.format)) / 1000;
    this.#audio.append(audio.length / bytesPerMs, this.#config.turnDetection !== null);
    // Serialized anew: if a member occurred twice, the upstream could read the other one.
    this.#send({ type: 'input_audio_buffer.append', audio: audio.toString('base64') }, causeId);
    await this.#room();
  }

  commit(causeId: string | null): Promise<void> {
    this.#audio.commit(this.#send({ type: 'input_audio_buffer.commit' }, causeId));
    return this.#room();
  }

  clear(causeId: string | null): Promise<void> {
    this.#audio.clear();
    this.#speechStarts.clear();
    this.#send({ type: 'input_audio_buffer.clear' }, causeId);
    return this.#room();
  }

  get hasUncommitted(): boolean {
    if (this.#config.turnDetection === null) return this.#audio.isAppended;
    // Where the upstream detects speech, everything else that was appended is silence.
    return this.#speechStarts.size > 0 && this.#audio.commitsWaiting === 0;
  }

  finish(): Promise<void> {
    const expired = AbortSignal.timeout(finishTimeoutMs);
    // An event that still waits to be handled may begin an item.
    const isDone = () => this.#waiting === 0 && this.#items.size === 0 && this.#audio.commitsWaiting === 0;
    return this.#until(() => expired.aborted || isDone());
  }

  async close(): Promise<void> {
    this.#end({ kind: this.#isHeard ? 'good' : 'none' });
    this.#socket.close();
    await this.#taking;
    await this.#failItems(cancelled());
  }

  /** Handles an event of the upstream, of which no more may wait than of those for the client. */
  take(text: string): void {
    if (this.#closed) return;
    this.#isHeard = true;
    if (this.#waiting >= waitingMax || this.#waitingLength + text.length > waitingLengthMax) {
      this.lost('it says more than can be relayed', { kind: 'none' });
      return;
    }
    this.#waiting += 1;
    this.#waitingLength += text.length;
    this.#taking = this.#taking
      .then(() => (this.#closed ? undefined : this.#relay(text)))
      .catch((error) => this.#context.events.fail(error))
      .finally(() => {
        this.#waiting -= 1;
        this.#waitingLength -= text.length;
      });
  }

  /** The upstream has ended the session: what it said before is handled first. */
  left(reason: string): void {
    this.#taking = this.#taking.then(() => this.lost(reason));
  }

  /** The session cannot go on. */
  lost(reason: string, verdict: Verdict = { kind: 'bad', message: `a session was ended: ${reason}` }): void {
    if (this.#closed) return;
    const error = gatewayError(ErrorReason.UPSTREAM_ERROR, 'The upstream of this model ended the session.', {
      internal: reason,
    });
    this.#end(verdict);
    this.#taking = this.#taking.then(async () => {
      await this.#failItems(error);
      this.#context.events.fail(error);
    });
  }

  /**
   * Makes sure that an item beginning now can be paid for. Running items were paid for and go on: near its limit a budget holds all its
   * room for them.
   */
  async #prepare(): Promise<void> {
    if (this.#items.size > 0 && this.#context.isRefused) return;
    await this.#context.prepare().catch((refusal) => {
      if (this.#items.size === 0) throw refusal;
    });
  }

  /** Handles one event of the upstream. */
  async #relay(text: string): Promise<void> {
    const event = parsed(text);
    if (event === null) {
      this.lost('an event is no JSON object');
      return;
    }
    const type = String(event.type);
    const itemId = typeof event.item_id === 'string' ? event.item_id : '';
    if (itemId.length > itemIdMax) {
      this.lost('the id of an item is too long');
      return;
    }
    await this.#prepare();
    if (this.#ended.has(itemId)) {
      // Its transcript was passed on already.
      if (!type.startsWith(itemEvent)) this.#pass(event);
      return;
    }
    const complaint = this.#saidOfOwnAccount(type, event);
    if (complaint !== null) {
      this.lost(complaint);
      return;
    }
    switch (type) {
      // The client already has its own.
      case 'session.created':
      case 'transcription_session.created':
        return;
      case 'session.updated':
      case 'transcription_session.updated':
        // In the client's words, with the client's name of the model.
        if (this.#update?.isAsked !== false) this.#context.sayUpdated();
        this.#update = null;
        // One that was late may be in time again.
        this.#answersUpdates = true;
        return;
      case 'error':
        this.#pass(this.#refused(event));
        return;
      case 'input_audio_buffer.speech_started':
        this.#speechStarts.set(itemId, Number(event.audio_start_ms));
        dropOldest(this.#speechStarts, speechStartsMax);
        break;
      case 'input_audio_buffer.speech_stopped':
      case 'input_audio_buffer.committed':
      case `${itemEvent}delta`:
      case `${itemEvent}segment`:
      case `${itemEvent}completed`:
      case `${itemEvent}failed`: {
        const item = this.#item(itemId);
        if (item !== null) await this.#relayOf(item, type, event);
        return;
      }
    }
    this.#pass(event);
  }

  /** Meters an event about an item, and passes it on. */
  async #relayOf(item: Item, type: string, event: UpstreamEvent): Promise<void> {
    switch (type) {
      case 'input_audio_buffer.speech_stopped': {
        // 0 when it is unknown or impossible: then what was appended counts.
        const audioMs = countOr0(
          Math.round(Number(event.audio_end_ms) - (this.#speechStarts.get(item.id) ?? Number.NaN)),
        );
        if (item.audioMs === 0) this.#claim(item, audioMs);
        this.#speechStarts.delete(item.id);
        break;
      }
      case 'input_audio_buffer.committed':
        this.#commitItem(item);
        this.#speechStarts.delete(item.id);
        break;
      case `${itemEvent}delta`:
        await item.metered.delta(typeof event.delta === 'string' ? event.delta : '');
        this.#pass(event, 'delta');
        return;
      case `${itemEvent}segment`:
        await item.metered.segment(typeof event.text === 'string' ? event.text : '');
        this.#pass(event, 'text');
        return;
      case `${itemEvent}completed`:
        await this.#completed(item, event);
        return;
      case `${itemEvent}failed`:
        this.#commitItem(item);
        await item.metered.fail(this.#failureIn(event), item.audioMs);
        this.#forget(item.id);
        break;
    }
    this.#pass(event);
  }

  /** Passes an event on without the upstream's key and address; `words` names the member with spoken words, which stays as it is. */
  #pass(event: UpstreamEvent, words?: 'delta' | 'text' | 'transcript'): void {
    const { redact } = this.#deployment.upstream;
    const said = words === undefined ? undefined : event[words];
    const json = JSON.stringify(event, (name, value) =>
      typeof value !== 'string' || (name === words && value === said) ? value : redact(value),
    );
    this.#context.events.pass(json);
  }

  /** Why the upstream did not transcribe an item, as of a call that was answered with success and an error. */
  #failureIn({ error }: UpstreamEvent): GatewayError {
    return failedInEvent(JSON.stringify({ error }), this.#deployment.upstream).error;
  }

  /** What an event says of the gateway's account at the upstream, as that it has no money left: the client would take it for its own. */
  #saidOfOwnAccount(type: string, { error }: UpstreamEvent): string | null {
    if (type !== 'error' && type !== `${itemEvent}failed`) return null;
    return saidOfOwnAccount(JSON.stringify({ error }), this.#deployment.upstream);
  }

  /** An item is committed, or transcribed without that, which some upstreams report first. */
  #commitItem(item: Item): void {
    if (item.isCommitted) return;
    item.isCommitted = true;
    const audioMs = this.#audio.committed();
    if (item.audioMs === 0) this.#claim(item, Math.round(audioMs));
  }

  /** Words of an item may have come before its end was reported: those were said until now. */
  #breakOff(item: Item): void {
    if (item.audioMs > 0 || !item.metered.hasWords) return;
    const saidMs = countOr0(Math.round(this.#audio.heardMs - (this.#speechStarts.get(item.id) ?? Number.NaN)));
    if (saidMs > 0) this.#claim(item, saidMs);
    else this.#commitItem(item);
  }

  #claim(item: Item, audioMs: number): void {
    item.audioMs = this.#audio.claim(audioMs);
    if (!canTranscriptUse({ audioMs }, item.audioMs, 0)) item.metered.disbelieve({ audioMs });
  }

  /** The upstream has refused something. Returns the error in the client's words. */
  #refused(event: UpstreamEvent): UpstreamEvent {
    const error = isObject(event.error) ? event.error : {};
    const eventId = typeof error.event_id === 'string' ? error.event_id : null;
    const update = this.#update;
    if (update !== null && this.#isOf(update, eventId)) {
      update.isRefused = true;
      this.#update = null;
      return { ...event, error: { ...error, event_id: update.causeId } };
    }
    this.#audio.refused(eventId);
    const isOwnName = eventId?.startsWith(ownNamePrefix) === true;
    return isOwnName ? { ...event, error: { ...error, event_id: null } } : event;
  }

  /** Whether an error is the answer to an update. One that does not say what it is about may be that to a commit. */
  #isOf(update: Update, eventId: string | null): boolean {
    return eventId === null ? this.#audio.commitsWaiting === 0 : eventId === update.eventId;
  }

  async #completed(item: Item, event: UpstreamEvent): Promise<void> {
    this.#commitItem(item);
    const { metered, audioMs } = item;
    const usage = readUsage(event.usage);
    const reported = usage === null ? null : measuresOf(usage);
    const text = typeof event.transcript === 'string' ? event.transcript : '';
    const isBelieved = await metered.complete({ text, reported, audioMs, promptBytes: this.#promptBytesMax });
    this.#forget(item.id);
    // Clients rely on it (openai-contract.md section 5), and not every upstream sends it.
    const told = usage === null || !isBelieved ? { ...event, usage: durationUsage(audioMs) } : event;
    this.#pass(told, 'transcript');
  }

  /** The item, which some upstreams transcribe before they report it as committed. Null for one that nobody can have committed. */
  #item(itemId: string): Item | null {
    const begun = this.#items.get(itemId);
    if (begun !== undefined) return begun;
    if (!this.#audio.mayBegin) {
      this.#logUncommitted();
      return null;
    }
    if (this.#items.size >= itemsMax) {
      // The client may have asked for this many.
      this.lost('it leaves too many items without a transcript', { kind: 'none' });
      return null;
    }
    this.#audio.begin();
    const item = { id: itemId, metered: this.#context.newItem(), audioMs: 0, isCommitted: false };
    item.metered.call.deploymentId = this.#deployment.id;
    this.#items.set(itemId, item);
    return item;
  }

  #logUncommitted(): void {
    if (this.#isUncommittedLogged) return;
    this.#isUncommittedLogged = true;
    this.#context.deps.logger.warn(
      { deployment: this.#deployment.id },
      'an upstream reported an utterance that nobody committed; the session ignores all of these',
    );
  }

  #forget(itemId: string): void {
    this.#items.delete(itemId);
    // Without an id, items cannot be told apart.
    if (itemId === '') return;
    this.#ended.add(itemId);
    dropOldest(this.#ended, endedMax);
  }

  async #failItems(error: GatewayError): Promise<void> {
    const items = [...this.#items.values()];
    this.#items.clear();
    await Promise.all(
      items.map((item) => {
        this.#breakOff(item);
        return item.metered.fail(error, item.audioMs);
      }),
    );
  }

  /** Returns the id by which the upstream refers to the event if it refuses it. */
  #send(event: object, causeId: string | null): string {
    this.#sent += 1;
    const event_id = causeId ?? `${ownNamePrefix}${this.#sent}`;
    this.#socket.send(JSON.stringify({ event_id, ...event }));
    return event_id;
  }

  /** Resolves once there is room for more, or nobody is left to take it. */
  async #room(): Promise<void> {
    const hasRoom = (bytesMax: number): boolean =>
      this.#socket.waitingBytes <= bytesMax && this.#items.size + this.#audio.commitsWaiting < itemsMax / 2;
    if (!hasRoom(waitingBytesMax)) await this.#until(() => hasRoom(waitingBytesMax / 2));
  }

  /** The session closes this backend only after it is done with the client's last event. */
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

function parsed(text: string): UpstreamEvent | null {
  try {
    const event: unknown = JSON.parse(text);
    return isObject(event) ? event : null;
  } catch {
    return null;
  }
}

/** Limits a set or map to this many entries: the first ones added go. */
function dropOldest(entries: Set<string> | Map<string, unknown>, entriesMax: number): void {
  if (entries.size > entriesMax) entries.delete(entries.keys().next().value!);
}
