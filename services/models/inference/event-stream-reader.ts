import { asBuffer } from '#shared/as-buffer.ts';
import { fieldSet, ObjectScan } from '../bytes/json-scan.ts';
import { type ReportedUsage, readUsage, usageOfBoth } from '../bytes/reported-usage.ts';
import { type SseFrame, SseSplitter } from '../bytes/sse.ts';
import { errorInFrame } from '../bytes/stream-error.ts';
import type { Measures } from '../domain/price.ts';
import { SaidText } from '../metering/said-text.ts';
import type { UpstreamHead } from '../upstream/upstream.ts';
import type { AnswerEnd, AnswerReader } from './prepared-call.ts';

/** What was seen of a stream of named events so far. */
type EventStreamSeen = {
  /** The usage of all events that completed a part of the answer; before those, or if they report none, the last that was reported. */
  usage: ReportedUsage | null;
  /** How often the event that completes the answer, or a part of it, came. */
  lastEvents: number;
  /** The text, as far as it has come in pieces or segments; sound has pieces without words. */
  said: Pick<SaidText, 'pieces' | 'length' | 'tokens'>;
  /** The text in the event that completes the answer. */
  lastText: string;
};

type EventStreamRules = {
  /** The `type` of the event that completes the answer. */
  lastEvent: string;
  /** How often that event comes, such as once per image; 1 by default. */
  lastEventsMax?: number;
  /** The `type` of events that carry at least one output token each; null: none do. */
  deltaEvent: string | null;
  /** The `type` of events with a whole segment of the answer, whose text may have come in pieces too. */
  segmentEvent?: string;
  /** The largest event, in bytes; that of texts by default. */
  eventBytesMax?: number;
  /** Converts chunks like those of chats, in which some upstreams answer, to the events of the operation. */
  chunks?: EventsOfChunks;
  /** What to charge; null: the gateway has to count. */
  measure(seen: EventStreamSeen): Partial<Measures> | null;
  counted?(seen: EventStreamSeen): Promise<Partial<Measures>>;
};

/** Of one stream. */
export type EventsOfChunks = {
  /** The event that corresponds to the choices of a chunk; null: none. */
  delta(choices: unknown): { type: string; delta: string } | null;
  /** The event that completes the answer; null when its chunks did not. */
  last(usage: ReportedUsage | null): object | null;
};

export const isEventStream = (head: UpstreamHead): boolean =>
  head.header('content-type')?.toLowerCase().startsWith('text/event-stream') ?? false;

/** The Content-Type of event streams, as clients get them. */
export const eventStreamType = 'text/event-stream; charset=utf-8';

const eventFields = fieldSet('type', 'object', 'usage', 'error', 'choices', 'text', 'delta');

/**
 * Passes on the events of images, transcripts and speech unchanged (openai-contract.md section 4), except for those that break clients, and
 * notices whether the answer is complete.
 */
export class EventStreamReader implements AnswerReader {
  readonly contentType = eventStreamType;
  readonly passesOn = true;
  readonly #rules: EventStreamRules;
  readonly #splitter: SseSplitter;
  readonly #scan = new ObjectScan(eventFields);
  readonly #text = new SaidText();
  readonly #seen: EventStreamSeen = { usage: null, lastEvents: 0, said: this.#text, lastText: '' };
  #forward: Uint8Array[] = [];
  /** The usage that events completing the answer, or a part of it, have reported. */
  #ofLastEvents: ReportedUsage | null = null;
  /** Whether an event was passed on. */
  #hasBegun = false;
  #isDone = false;
  #failure: string | null = null;
  #said: string | null = null;

  constructor(rules: EventStreamRules) {
    this.#rules = rules;
    this.#splitter = new SseSplitter((frame) => this.#take(frame), rules.eventBytesMax);
  }

  /** Nothing is read after the last event, or after `[DONE]`, which clients do not need here. */
  get complete(): boolean {
    return this.#isDone || this.#failure !== null || this.#seen.lastEvents >= (this.#rules.lastEventsMax ?? 1);
  }

  get outputTokensSoFar(): number {
    return this.#text.pieces;
  }

  get heldBytes(): number {
    return this.#splitter.heldBytes;
  }

  push(chunk: Uint8Array): readonly Uint8Array[] {
    if (!this.#splitter.push(asBuffer(chunk)) && !this.complete) {
      this.#failure = 'the upstream sent an event that is too long';
    }
    return this.#flush();
  }

  end(cut: boolean): AnswerEnd {
    if (!cut && !this.complete) {
      this.#splitter.end();
      this.#completeChunks();
    }
    const seen = this.#seen;
    const failure =
      this.#failure ??
      (cut ? 'the stream was cut' : seen.lastEvents === 0 ? `the stream ended without ${this.#rules.lastEvent}` : null);
    return {
      forward: this.#flush(),
      reported: this.#rules.measure(seen),
      counted: async () => this.#rules.counted?.(seen) ?? {},
      failure,
      said: this.#said,
    };
  }

  #take(frame: SseFrame): void {
    if (this.complete) return;
    const { bytes, start, end, dataStart, dataEnd } = frame;
    if (frame.error !== null) {
      this.#failAsTold(frame.error);
    } else if (dataStart === -1) {
      // As in a stream of chunks (services/models/bytes/chat-stream.ts).
      if (this.#hasBegun && frame.event === '' && !frame.hasGarbage) this.#forward.push(bytes.subarray(start, end));
    } else if (dataStart !== dataEnd && frame.event !== 'ping' && this.#mayPass(frame)) {
      this.#hasBegun = true;
      this.#forward.push(bytes.subarray(start, end));
    }
  }

  /** Reads an event. Returns false if the client must not get it: the upstream failed, or it came as a chunk. */
  #mayPass(frame: SseFrame): boolean {
    const { data, dataStart: start, dataEnd: end } = frame;
    const scan = this.#scan;
    const problem = scan.read(data, start, end);
    const said = errorInFrame(frame, problem === null ? scan : null);
    if (said !== null) {
      this.#failAsTold(said);
      return false;
    }
    if (problem !== null) {
      if (data.toString('latin1', start, Math.min(end, start + 16)).trim() === '[DONE]') {
        this.#completeChunks();
        this.#isDone = true;
        return true;
      }
      this.#failure = 'the upstream sent an event that is no JSON object';
      return false;
    }
    const type = scan.string('type');
    if (type === this.#rules.lastEvent) {
      this.#seen.lastEvents += 1;
      this.#seen.lastText = scan.string('text') ?? '';
    }
    if (type === this.#rules.deltaEvent) this.#text.delta(scan.string('delta'));
    else if (type !== undefined && type === this.#rules.segmentEvent) this.#text.segment(scan.string('text'));
    if (scan.kind('usage') === 'object') this.#seeUsage(readUsage(scan.json('usage')), type === this.#rules.lastEvent);
    const { chunks } = this.#rules;
    if (chunks === undefined || scan.kind('choices') !== 'array') return true;
    const delta = chunks.delta(scan.json('choices'));
    if (delta !== null) {
      this.#text.delta(delta.delta);
      this.#forwardEvent(delta);
    }
    return false;
  }

  /** Each image's event tells of that image (OpenAI), or only the last one, of all. */
  #seeUsage(usage: ReportedUsage | null, isOfLastEvent: boolean): void {
    if (isOfLastEvent) this.#ofLastEvents = usageOfBoth(this.#ofLastEvents, usage);
    this.#seen.usage = this.#ofLastEvents ?? usage ?? this.#seen.usage;
  }

  /** Ends with an error of the upstream, in its own words. */
  #failAsTold(said: string): void {
    this.#failure = 'the upstream sent an error';
    this.#said = said;
  }

  #completeChunks(): void {
    if (this.#seen.lastEvents > 0) return;
    const last = this.#rules.chunks?.last(this.#seen.usage) ?? null;
    if (last === null) return;
    this.#seen.lastEvents += 1;
    this.#forwardEvent(last);
  }

  #forwardEvent(event: object): void {
    this.#hasBegun = true;
    this.#forward.push(Buffer.from(`data: ${JSON.stringify(event)}\n\n`));
  }

  #flush(): readonly Uint8Array[] {
    const forward = this.#forward;
    if (forward.length > 0) this.#forward = [];
    return forward;
  }
}
