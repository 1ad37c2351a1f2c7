import { expect } from 'vitest';
import type { InferenceBench } from '../inference.ts';
import { append, openTalk, type RealtimeEvent, type RealtimeTalk } from '../realtime-client.ts';
import { type RealtimeBench, startRealtimeBench } from '../realtime-upstream.ts';
import { namedBehaviours } from '../simulator/behaviour.ts';
import { waitFor } from '../wait-for.ts';
import type { Act, Model, Said } from './acts.ts';

const modelNames = { files: 'sim-files', vllm: 'vllm', relay: 'relay' } as const;
const transcription = 'conversation.item.input_audio_transcription';
const frameMs = 20;
const commitMsMin = 100;
/**
 * A price at which the longest utterance costs 0.12 USD, and a cap with room for one of them in addition to everything that a history
 * costs.
 */
const terms = { perSecondUsd: 0.001, capUsd: 0.22 };

/** What was appended in one format to one backend, with the words in it as byte ranges. */
type Stretch = {
  rate: number;
  model: Model;
  /** How much the backend had heard before, in milliseconds. */
  startMs: number;
  bytes: Buffer;
  /** The byte up to which everything was cleared. */
  cleared: number;
  words: { from: number; to: number; isExcused: boolean }[];
};
/**
 * Audio from a byte on that waits to be committed. If voice activity started it, it has an id, and its start is known only to a
 * millisecond.
 */
type Open = { itemId: string | null; from: number; isExact: boolean };
type Item = {
  itemId: string;
  model: Model;
  rate: number;
  /** Null if only the length of what the gateway heard in it is known. */
  bytes: Buffer | null;
  ms: number;
  isCommitted: boolean;
  end: RealtimeEvent | null;
};

/** A gateway with one model for each way in which a session can be answered. */
export async function startHistoryBench(): Promise<RealtimeBench> {
  const bench = await startRealtimeBench();
  const { files: model } = modelNames;
  await bench.admin('POST', '/models', { name: model, operations: ['realtime_transcription'] });
  await bench.admin('POST', '/deployments', { model, base_url: bench.simulator.url, upstream_model: 'sim-transcribe' });
  for (const priced of Object.values(modelNames)) {
    await bench.admin('POST', '/prices', { model: priced, per_audio_second_usd: terms.perSecondUsd });
  }
  bench.openai.usage = null;
  return bench;
}

/** The successive sessions of one key, and what must come of them. */
export class History {
  readonly #bench: InferenceBench;
  #key = { id: '', key: '' };
  #talk!: RealtimeTalk;
  #model: Model = 'files';
  #vad = true;
  readonly #stretches: Stretch[] = [];
  #open: Open | null = null;
  /** Of all sessions. */
  readonly #items: Item[] = [];
  /** Those of this session. */
  #heard: Item[] = [];
  /** Utterances that were started, and so metered. */
  #begun = 0;
  /** How many of the next files will not be transcribed. */
  #failures = 0;
  /** Five would eject the upstream for a while. */
  #failedInARow = 0;
  #texts = 0;
  /** How many events of this session were examined. */
  #seen = 0;
  #said = 0;
  #updates = 0;
  /** What the client must be told: codes by the id of what they refuse, and the rest in order. */
  #errors = new Map<string, string>();
  #due: string[] = [];
  #previousItemId: string | null = null;

  constructor(bench: InferenceBench) {
    this.#bench = bench;
  }

  async begin(): Promise<void> {
    this.#bench.simulator.reset();
    // Each transcript is unique, by its length.
    this.#bench.simulator.otherwise(() => {
      if (this.#failures === 0 || this.#failedInARow === 3) {
        this.#failedInARow = 0;
        return { usage: 'absent', tokens: ++this.#texts, headDelayMs: 5 };
      }
      this.#failures -= 1;
      this.#failedInARow += 1;
      // As late as a success, so that they end in this order.
      return { ...namedBehaviours['server-error'], headDelayMs: 5 };
    });
    this.#key = await this.#bench.gateway.createKey(this.#bench.session, { spend_cap_usd: terms.capUsd });
    await this.#enter();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#talk?.socket.terminate();
    await this.#bench.gateway.call('DELETE', `/api/v1/api-keys/${this.#key.id}`, this.#bench.session);
  }

  async perform(act: Act): Promise<void> {
    switch (act.kind) {
      case 'say':
        for (const event of act.events) {
          const wasVad = this.#vad;
          this.#say(event);
          // What voice activity makes of it is known only once it was heard.
          if (wasVad || this.#vad || this.#open?.isExact === false) await this.#settle();
        }
        return this.#settle();
      case 'model':
        this.#changeModel(act.name);
        return this.#settle();
      case 'fail next':
        this.#failures = Math.min(3, this.#failures + 1);
        return;
      case 'leave':
        await this.#leave(act.atOnce);
        return this.#enter();
      default:
        act satisfies never;
    }
  }

  /** Has what is open transcribed, then one more file, and compares everything that was said with what was transcribed and metered. */
  async finish(): Promise<void> {
    this.#failures = 0;
    await this.#commitOpen();
    this.#changeModel('files');
    this.#say({ kind: 'listen', silenceMs: null, paddingMs: 0 });
    await this.#commitOpen();
    await this.#leave(false);
    this.#compareWords();
    await this.#compareUsage();
  }

  async #commitOpen(): Promise<void> {
    this.#append({ kind: 'append', quietMs: 700, loudMs: 0, restMs: 800, pieceBytes: 1_000_000 });
    await this.#settle();
    if (this.#open !== null) this.#commit();
    await this.#settle();
  }

  async #enter(): Promise<void> {
    const { url } = this.#bench.gateway;
    const query = `?model=${modelNames.files}`;
    // The previous session may still hold the room for what was said in it.
    const open = () => openTalk(url, { key: this.#key.key, query });
    this.#talk = await waitFor(open, { description: 'another session', timeoutMs: 5_000 });
    this.#model = 'files';
    this.#vad = true;
    this.#heard = [];
    this.#seen = 0;
    this.#updates = 0;
    this.#previousItemId = null;
    this.#newStretch(24_000, 0);
    await this.#settle();
  }

  /** Ends the session; if at once, in the middle of what is being transcribed. */
  async #leave(atOnce: boolean): Promise<void> {
    if (!atOnce) await this.#answered();
    this.#dropOpen();
    this.#talk.socket.terminate();
  }

  #newStretch(rate: number, startMs: number): void {
    this.#stretches.push({ rate, model: this.#model, startMs, bytes: Buffer.alloc(0), cleared: 0, words: [] });
  }

  get #stretch(): Stretch {
    return this.#stretches.at(-1)!;
  }

  #msOf(bytes: number): number {
    return (bytes / 2 / this.#stretch.rate) * 1_000;
  }

  #send(event: object): string {
    const event_id = `mine_${++this.#said}`;
    this.#talk.say({ ...event, event_id });
    return event_id;
  }

  #refused(event: object, code: string): void {
    this.#errors.set(this.#send(event), code);
  }

  #update(session: object): void {
    this.#send({ type: 'session.update', session });
    this.#due.push('session.updated');
    this.#updates += 1;
  }

  #say(event: Said): void {
    switch (event.kind) {
      case 'append':
        this.#append(event);
        return;
      case 'commit':
        this.#commit(event.hasHalf);
        return;
      case 'clear':
        if (event.hasHalf) this.#sayHalf();
        this.#send({ type: 'input_audio_buffer.clear' });
        this.#due.push('input_audio_buffer.cleared');
        this.#dropOpen();
        return;
      case 'listen': {
        // The relay's upstream does not detect speech by itself.
        if (this.#model === 'relay') return;
        this.#vad = event.silenceMs !== null;
        const detection = { prefix_padding_ms: event.paddingMs, silence_duration_ms: event.silenceMs };
        this.#update({ audio: { input: { turn_detection: this.#vad ? detection : null } } });
        return;
      }
      case 'format':
        this.#changeRate(event.rate);
        return;
      case 'mistake':
        this.#mistake(event.which);
        return;
      default:
        event satisfies never;
    }
  }

  #mistake(which: 'type' | 'audio' | 'rate' | 'base64'): void {
    switch (which) {
      case 'type':
        this.#refused({ type: 'response.create' }, 'invalid_value');
        return;
      case 'audio':
        this.#refused({ type: 'input_audio_buffer.append', audio: 5 }, 'invalid_value');
        return;
      case 'rate': {
        const session = { audio: { input: { format: { type: 'audio/pcm', rate: 1 } } } };
        this.#refused({ type: 'session.update', session }, 'invalid_value');
        return;
      }
      case 'base64':
        this.#refused({ type: 'input_audio_buffer.append', audio: 'AAAAAAAA*AAAAAAA' }, 'invalid_value');
        return;
      default:
        which satisfies never;
    }
  }

  #append({ quietMs, loudMs, restMs, pieceBytes }: Extract<Said, { kind: 'append' }>): void {
    const stretch = this.#stretch;
    const parts = [noise(quietMs, stretch.rate, 3), noise(loudMs, stretch.rate, 8_000), noise(restMs, stretch.rate, 3)];
    const before = stretch.bytes.length;
    const from = before + parts[0]!.length;
    // Anything shorter may be a click.
    if (loudMs >= 100) stretch.words.push({ from, to: from + parts[1]!.length, isExcused: false });
    if (!this.#vad && this.#open === null) {
      this.#open = { itemId: null, from: before, isExact: true };
      // A relay meters what its upstream has committed.
      if (this.#model !== 'relay') this.#begun += 1;
    }
    const said = Buffer.concat(parts);
    stretch.bytes = Buffer.concat([stretch.bytes, said]);
    for (let at = 0; at < said.length; at += pieceBytes) this.#send(append(said.subarray(at, at + pieceBytes)));
  }

  /** A byte that belongs to nothing: what is appended after it is heard from its own beginning. */
  #sayHalf(): void {
    if (this.#model !== 'relay') this.#send(append(Buffer.alloc(1)));
  }

  #commit(hasHalf = false): void {
    const event = { type: 'input_audio_buffer.commit' };
    const open = this.#open;
    if (this.#model === 'relay' && open === null) {
      this.#refused(event, 'none');
      return;
    }
    const ms = open === null ? 0 : this.#msOf(this.#stretch.bytes.length - open.from);
    if (this.#model !== 'relay' && ms < commitMsMin) {
      this.#refused(event, 'input_audio_buffer_commit_empty');
      return;
    }
    if (hasHalf) this.#sayHalf();
    this.#send(event);
    this.#due.push('input_audio_buffer.committed');
    if (this.#model === 'relay') this.#begun += 1;
    this.#hear(open!, this.#stretch.bytes.length);
  }

  /** What is open becomes an item, up to a byte. */
  #hear({ from, isExact, itemId }: Open, to: number): void {
    const { rate, bytes } = this.#stretch;
    const item: Item = {
      itemId: itemId ?? '',
      model: this.#model,
      rate,
      bytes: isExact ? bytes.subarray(from, to) : null,
      ms: this.#msOf(to - from),
      isCommitted: false,
      end: null,
    };
    this.#items.push(item);
    this.#heard.push(item);
    this.#open = null;
  }

  #changeRate(rate: number): void {
    const session = { audio: { input: { format: { type: 'audio/pcm', rate } } } };
    const { rate: before, startMs, bytes } = this.#stretch;
    if (this.#open !== null && rate !== before) {
      this.#refused({ type: 'session.update', session }, 'input_audio_buffer_not_empty');
      return;
    }
    this.#update(session);
    if (rate !== before) this.#newStretch(rate, startMs + this.#msOf(bytes.length));
  }

  #changeModel(name: Model): void {
    const input = { transcription: { model: modelNames[name] }, ...(name === 'relay' && { turn_detection: null }) };
    const session = { audio: { input } };
    if (name !== this.#model && this.#open !== null) {
      this.#refused({ type: 'session.update', session }, 'input_audio_buffer_not_empty');
      return;
    }
    this.#update(session);
    if (name === this.#model) return;
    if (name === 'relay') this.#vad = false;
    this.#model = name;
    this.#previousItemId = null;
    this.#newStretch(this.#stretch.rate, 0);
  }

  #dropOpen(): void {
    this.#open = null;
    this.#stretch.cleared = this.#stretch.bytes.length;
    for (const word of this.#stretch.words) word.isExcused = true;
  }

  /** Waits until everything said so far is answered, apart from transcripts, and compares it. */
  async #settle(): Promise<void> {
    this.#update({});
    const { events } = this.#talk;
    await waitFor(
      () => {
        if (this.#talk.closed !== null) return true;
        const isUpdated = events.filter(({ type }) => type === 'session.updated').length === this.#updates;
        const refused = new Set(events.map((event) => event.error?.event_id));
        return isUpdated && [...this.#errors.keys()].every((id) => refused.has(id));
      },
      { description: 'the answers to what was said' },
    );
    expect(this.#talk.closed).toBeNull();
    while (this.#seen < events.length) this.#take(events[this.#seen++]!);
    expect(this.#due).toEqual([]);
    expect([...this.#errors]).toEqual([]);
    for (const { isCommitted } of this.#heard) expect(isCommitted).toBe(true);
  }

  #take(event: RealtimeEvent): void {
    const { item_id: itemId } = event;
    switch (event.type) {
      case 'session.created':
      case 'conversation.item.added':
      case 'conversation.item.done':
      case `${transcription}.delta`:
        return;
      case 'session.updated':
        this.#comesNext(event);
        expect(event.session.audio.input.format.rate).toBeDefined();
        return;
      case 'input_audio_buffer.cleared':
        this.#comesNext(event);
        return;
      case 'error':
        expect(event.error.code ?? 'none').toBe(this.#errors.get(event.error.event_id));
        this.#errors.delete(event.error.event_id);
        return;
      case 'input_audio_buffer.speech_started': {
        const from = this.#byteAt(event.audio_start_ms);
        if (this.#open === null) {
          expect(this.#msOf(from - this.#stretch.cleared)).toBeGreaterThanOrEqual(-1);
          this.#begun += 1;
          this.#open = { itemId, from, isExact: false };
        } else {
          // It was started by what was appended before anyone listened for speech.
          expect(this.#open.itemId).toBeNull();
          expect(Math.abs(this.#msOf(from - this.#open.from))).toBeLessThanOrEqual(1);
          this.#open = { itemId, from: this.#open.from, isExact: false };
        }
        return;
      }
      case 'input_audio_buffer.speech_stopped':
        expect(this.#open?.itemId).toBe(itemId);
        this.#hear(this.#open!, this.#byteAt(event.audio_end_ms));
        return;
      case 'input_audio_buffer.committed': {
        const item = this.#heard.find(({ isCommitted }) => !isCommitted);
        if (item === undefined) throw new Error(`${itemId} was committed, and nothing was open`);
        if (item.itemId === '') this.#comesNext(event);
        else if (item.itemId !== itemId) throw new Error(`${itemId} was committed in place of ${item.itemId}`);
        else if (this.#due[0] === event.type) this.#due.shift();
        item.itemId = itemId;
        item.isCommitted = true;
        if (item.model === 'relay') return;
        expect(event.previous_item_id).toBe(this.#previousItemId);
        this.#previousItemId = itemId;
        return;
      }
      case `${transcription}.completed`:
      case `${transcription}.failed`: {
        const item = this.#heard.find((one) => one.itemId === itemId);
        expect(item).toMatchObject({ isCommitted: true, end: null });
        item!.end = event;
        return;
      }
      default:
        throw new Error(`an event of the type ${event.type}`);
    }
  }

  #comesNext({ type }: RealtimeEvent): void {
    expect(type).toBe(this.#due.shift());
  }

  /** The byte of this stretch at a moment of the session. */
  #byteAt(ms: number): number {
    const { startMs, rate, bytes } = this.#stretch;
    const byte = 2 * Math.round(((ms - startMs) * rate) / 1_000);
    // Times are reported in whole milliseconds.
    expect(byte).toBeGreaterThanOrEqual(-rate / 500);
    expect(byte).toBeLessThanOrEqual(bytes.length + rate / 500);
    return Math.min(Math.max(0, byte), bytes.length);
  }

  /** Waits for the transcripts of everything committed, and compares them with what their upstreams heard. */
  async #answered(): Promise<void> {
    await waitFor(
      async () => {
        await this.#settle();
        return this.#heard.every(({ end }) => end !== null);
      },
      { description: 'the transcripts' },
    );
    for (const { model, end, bytes, ms, rate } of this.#heard) {
      if (end!.type === `${transcription}.failed`) {
        expect(model).toBe('files');
      } else if (model === 'files') {
        const call = this.#bench.simulator.requests.find(({ text }) => text === end!.transcript)!;
        const heard = call.form.find(({ name }) => name === 'file')!.bytes;
        expect(heard.readUInt32LE(24)).toBe(rate);
        if (bytes !== null) expect(heard.subarray(44).equals(bytes)).toBe(true);
        else expect(Math.abs((heard.length - 44) / 2 / rate - ms / 1_000)).toBeLessThan(0.003);
        expect(end!.usage).toEqual({
          type: 'duration',
          seconds: Math.round((heard.length - 44) / (rate / 500)) / 1_000,
        });
      } else {
        const perMs = (model === 'vllm' ? 16_000 : rate) / 500;
        const heard = Number(/^heard (\d+) bytes$/.exec(end!.transcript)![1]);
        expect(Math.abs(heard / perMs - ms)).toBeLessThan(model === 'vllm' || bytes === null ? 3 : 0.01);
      }
    }
  }

  /** Every word was heard once, complete except for the frame in which it began, and nothing was heard twice. */
  #compareWords(): void {
    const calls = this.#bench.simulator.requests.filter(({ operation }) => operation === 'transcriptions');
    const heard = calls.map(({ form }) => {
      const file = form.find(({ name }) => name === 'file')!.bytes;
      const audio = file.subarray(44);
      const places = this.#stretches.flatMap((stretch) => {
        const from = stretch.bytes.indexOf(audio);
        return from < 0 || stretch.rate !== file.readUInt32LE(24) ? [] : [{ stretch, from, to: from + audio.length }];
      });
      expect(places).toHaveLength(1);
      return places[0]!;
    });
    for (const stretch of this.#stretches.filter(({ model }) => model === 'files')) {
      const ranges = heard.filter((place) => place.stretch === stretch).sort((a, b) => a.from - b.from);
      ranges.forEach(({ from }, index) => {
        if (index > 0) expect(from).toBeGreaterThanOrEqual(ranges[index - 1]!.to);
      });
      const frameBytes = (stretch.rate / 500) * frameMs;
      for (const { from, to, isExcused } of stretch.words) {
        const isHeard = ranges.some((range) => range.from <= from + frameBytes && range.to >= to);
        expect(isHeard || isExcused).toBe(true);
      }
    }
  }

  /** Each utterance that was started is in usage once, with its length, and nothing else is. */
  async #compareUsage(): Promise<void> {
    const { gateway, session } = this.#bench;
    const path = `/api/v1/usage/history?limit=100&api_key_id=${this.#key.id}`;
    const events = await waitFor(
      async () => {
        const { data } = (await gateway.call('GET', path, session)).json;
        if (data.length < Math.min(this.#begun, 100)) throw new Error(`${data.length} of ${this.#begun}`);
        return data as { success: boolean; status: number; audio_seconds: number }[];
      },
      { description: 'the usage' },
    );
    expect(events).toHaveLength(this.#begun);
    const lengths = (values: number[]) => values.sort((a, b) => a - b);
    const ended = this.#items.filter(({ end }) => end?.type === `${transcription}.completed`);
    const told = lengths(ended.map(({ ms }) => ms / 1_000));
    const metered = lengths(events.filter(({ success }) => success).map((event) => event.audio_seconds));
    // Those of a session that was left at once may have ended after it, in either way.
    const unknown = this.#items.filter(({ end }) => end === null).length;
    expect(metered.length).toBeGreaterThanOrEqual(told.length);
    const failed = this.#items.length - ended.length - unknown;
    const meteredFailed = events.filter(({ status }) => status === 502).length;
    expect(meteredFailed).toBeGreaterThanOrEqual(failed);
    expect(metered.length + meteredFailed).toBeLessThanOrEqual(told.length + failed + unknown);
    if (unknown === 0) {
      for (const [index, seconds] of metered.entries()) expect(Math.abs(seconds - told[index]!)).toBeLessThan(0.003);
    }
  }
}

/** Random 16-bit samples, so that each piece of them is found in only one place. */
function noise(ms: number, rate: number, amplitude: number): Buffer {
  const bytes = Buffer.alloc(2 * Math.round((ms * rate) / 1_000));
  for (let at = 0; at < bytes.length; at += 2) bytes.writeInt16LE(Math.round((2 * Math.random() - 1) * amplitude), at);
  return bytes;
}
