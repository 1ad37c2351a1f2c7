import { asBuffer } from '#shared/as-buffer.ts';
import { GrowingBuffer } from '#shared/growing-buffer.ts';
import {
  type ChatOperation,
  ChoicesReader,
  type ChunkField,
  chunkFields,
  chunkSplices,
  hasCreated,
  hasUniqueId,
  objectNames,
} from './chat-chunk.ts';
import { ChunkShape, framePrefix, frameSuffix, type Hole, viewOf } from './chunk-shape.ts';
import { ObjectScan } from './json-scan.ts';
import { type ReportedUsage, readUsage } from './reported-usage.ts';
import { applySplices, type Splice } from './splice.ts';
import { type SseFrame, SseSplitter, toOneLine } from './sse.ts';
import { errorInFrame } from './stream-error.ts';

/** The largest answer of words, in bytes; also the largest event in a stream, since an image that a model draws comes in one. */
export const answerBytesMax = 16 * 1024 * 1024;

export type ChatStreamOptions = {
  operation: ChatOperation;
  /** Whether the client asked for the usage chunk. The upstream is always asked for it. */
  includeUsage: boolean;
  /** Makes an id for an answer whose own is missing or too short to be unique, such as Ollama's `chatcmpl-123`. */
  mintId: () => string;
  /** Unix seconds, for an upstream without a usable `created`. */
  createdSeconds: number;
  /** As the client named it, for an upstream that does not. */
  model: string;
  /** How many choices were asked for, of all prompts together. */
  answers: number;
};

/**
 * `open`: more may come. `done`: `[DONE]` came. `failed`: the upstream sent an error or garbage. After the last two nothing more is read.
 */
type ChatStreamState = 'open' | 'done' | 'failed';

export type ChatStreamOutcome = 'complete' | 'cut' | 'no_finish_reason' | 'upstream_error';

export type ChatStreamEnd = {
  /** The last bytes for the client, with `[DONE]` as the last piece; empty unless complete, since the caller then writes an error frame. */
  forward: readonly Uint8Array[];
  outcome: ChatStreamOutcome;
  /** The last usage that the upstream reported. */
  usage: ReportedUsage | null;
  /** Whether it came in a chunk of its own after the last words; usage beside words, or before them, may be an interim figure. */
  isUsageFinal: boolean;
  /** Whether so many words came after it that it cannot contain them; then the client was not told it. */
  isUsageStale: boolean;
  /** The error that the upstream reported, as it wrote it; null: none. */
  said: string | null;
  /** What is wrong with its bytes; null: nothing. */
  problem: string | null;
};

/**
 * How much of the output's text is kept for counting its tokens when the upstream does not report them: some 60,000 tokens, as few answers
 * have, since 1,000 open streams keep 1,000 times as much. A first delta is kept whole even if it is longer.
 */
const textBytesMax = 256 * 1024;
/** How many bytes the tokens of a text have at most, on average, even where each letter is escaped. */
const tokenBytesMax = 32;
export const doneFrame = Buffer.from('data: [DONE]\n\n');
/** How many shapes each chunk is compared with: a few choices have one each. */
const shapesMax = 4;
const shapesMadeInVainMax = 16;
const nothing: readonly Uint8Array[] = [];
/** How many more bytes a few chunks take as written frames than as they came. */
const writtenExtraBytes = 256;

/**
 * Passes a stream of chat or text completions on to the client in the form of openai-contract.md section 3, and notes what the gateway has
 * to know. Frames that are right already are passed on as slices of the upstream's chunks. What was passed on always ends with a whole
 * frame, so a comment or an error frame may follow.
 */
export class ChatStream {
  readonly #options: ChatStreamOptions;
  readonly #splitter: SseSplitter;
  readonly #choices: ChoicesReader;
  readonly #scan = new ObjectScan(chunkFields);
  readonly #text = new GrowingBuffer();
  readonly #splices: Splice[] = [];
  readonly #shapes: ChunkShape[] = [];
  /** The bytes of the current call and a view of them, shared by their chunks. */
  #viewed: Buffer | null = null;
  #view: DataView | null = null;
  #shapesMade = 0;
  #shapesUsed = 0;
  /** How many texts were taken from the chunk being read. */
  #textsTaken = 0;
  #lastText: Hole | null = null;
  #id: Buffer | null = null;
  #created: Buffer = Buffer.alloc(0);
  #model: Buffer = Buffer.alloc(0);
  #usage: ReportedUsage | null = null;
  #usageJson: Buffer | null = null;
  #isUsageFinal = false;
  /** Whether words came after the usage. */
  #hasOutrunUsage = false;
  /** The chunk with the usage, as the client gets it at the end; null: the upstream reported it beside words of the answer. */
  #usageFrame: Buffer | null = null;
  #said: string | null = null;
  #problem: string | null = null;
  /** What the current call passes on. While the last piece is growing, it is either what was written, or `run[runStart, runEnd)`. */
  #forward: Uint8Array[] = [];
  readonly #written = new GrowingBuffer();
  #run: Buffer | null = null;
  #runStart = 0;
  #runEnd = 0;

  state: ChatStreamState = 'open';
  /** Deltas that carried output: each is at least one token. */
  deltas = 0;
  /** Their text in bytes. */
  textBytes = 0;

  constructor(options: ChatStreamOptions) {
    this.#options = options;
    this.#splitter = new SseSplitter((frame) => this.#take(frame), answerBytesMax);
    this.#choices = new ChoicesReader(options.operation, options.answers, (bytes, start, end) => {
      this.#textsTaken += 1;
      // A shape can only be made of text that is in the chunk unchanged.
      this.#lastText = bytes === this.#scan.bytes ? { start, end } : null;
      this.#takeText(bytes, start, end);
    });
  }

  /** Bytes of the unfinished event. */
  get heldBytes(): number {
    return this.#splitter.heldBytes;
  }

  /** Takes the upstream's next bytes; returns what goes to the client now. Check `state` afterwards. */
  push(chunk: Uint8Array): readonly Uint8Array[] {
    if (this.state !== 'open') return nothing;
    if (!this.#splitter.push(asBuffer(chunk)) && this.state === 'open')
      this.#fail('the upstream sent an event that is too long');
    this.#viewed = null;
    this.#view = null;
    return this.#flush();
  }

  /** The stream has ended; `cut`: the upstream did not mean it to. Called once. */
  end(cut: boolean): ChatStreamEnd {
    if (this.state === 'open' && !cut) this.#splitter.end();
    const outcome = this.#outcome(cut);
    const usage = this.#usage;
    const fewestTokens = Math.max(this.deltas, this.textBytes / tokenBytesMax);
    const isUsageStale = usage !== null && this.#hasOutrunUsage && (usage.outputTokens ?? 0) < fewestTokens;
    if (outcome === 'complete') {
      if (this.#options.includeUsage && usage !== null && !isUsageStale) {
        this.#send(this.#usageFrame ?? this.usageChunk(this.#usageJson!.toString()));
      }
      this.#send(doneFrame);
    }
    const forward = this.#flush();
    return {
      forward,
      outcome,
      usage,
      isUsageFinal: this.#isUsageFinal,
      isUsageStale,
      said: this.#said,
      problem: this.#problem,
    };
  }

  /** How many times longer the output's text is than `outputText`. */
  get textScale(): number {
    return this.#text.length === 0 ? 1 : this.textBytes / this.#text.length;
  }

  /** The output's text, its first 256 KiB, for counting tokens. */
  outputText(): string {
    // Joining escaped pieces gives escaped text: surrogate pairs split between deltas are whole again.
    return JSON.parse(`"${this.#text.view().toString()}"`) as string;
  }

  #outcome(cut: boolean): ChatStreamOutcome {
    if (this.state === 'failed') return 'upstream_error';
    if (this.#choices.hasBroken) return 'no_finish_reason';
    const choices = [...this.#choices.choices.values()];
    const finished = choices.filter(({ isFinished }) => isFinished).length;
    if (this.state === 'done') return finished > 0 ? 'complete' : 'no_finish_reason';
    if (cut) return 'cut';
    // Without [DONE], only the finish reasons show that nothing is missing.
    return finished > 0 && finished === choices.length ? 'complete' : 'no_finish_reason';
  }

  #take(frame: SseFrame): void {
    if (this.state !== 'open') return;
    if (frame.error !== null) {
      this.#failAsTold(frame.error);
    } else if (frame.dataStart === -1) {
      // Comments, blank lines and retry times pass; but an event name without data breaks clients. Those before the first chunk, with which
      // OpenRouter for one bridges its waiting, do not: an error that follows still gets a status of its own, or another upstream's answer.
      if (this.#id !== null && frame.event === '' && !frame.hasGarbage) this.#pass(frame);
    } else if (isDone(frame)) {
      this.state = 'done';
    } else if (frame.dataStart !== frame.dataEnd && frame.event !== 'ping' && !this.#takeKnown(frame)) {
      const problem = this.#takeChunk(frame);
      if (problem !== null) this.#fail(problem);
    }
  }

  /** Handles a chunk that has the shape of an earlier one. */
  #takeKnown(frame: SseFrame): boolean {
    const { data, dataStart, dataEnd } = frame;
    if (data !== frame.bytes || frame.event !== '') return false;
    if (this.#shapes.length === 0) return false;
    if (this.#viewed !== data) {
      this.#viewed = data;
      this.#view = viewOf(data);
    }
    for (const shape of this.#shapes) {
      if (!shape.matches(data, this.#view!, dataStart, dataEnd)) continue;
      const { textStart, textEnd } = shape;
      if (textStart < textEnd) this.#takeText(data, textStart, textEnd);
      if (shape.isRight) this.#pass(frame);
      else this.#write(shape, data);
      this.#shapesUsed += 1;
      return true;
    }
    return false;
  }

  /** Keeps the shape of the chunk read last, if more like it can be expected. */
  #keepShape(frame: SseFrame): void {
    const { data, dataStart, dataEnd } = frame;
    const text = this.#lastText;
    // A stream whose chunks differ in more than the text makes shapes in vain, so it stops soon.
    if (text === null || this.#choices.isUnlikeOthers || this.#shapesMade > this.#shapesUsed + shapesMadeInVainMax)
      return;
    if (data !== frame.bytes || frame.event !== '') return;
    const others: Hole[] = [];
    // OpenAI pads each chunk with random letters.
    const obfuscation = this.#scan.member('obfuscation');
    if (obfuscation !== undefined && this.#scan.kind('obfuscation') === 'string') {
      others.push({ start: obfuscation.valueStart + 1, end: obfuscation.valueEnd - 1 });
    }
    const shape = ChunkShape.of(data, [dataStart, dataEnd], text, others, this.#splices);
    if (shape === null) return;
    this.#shapes[this.#shapesMade % shapesMax] = shape;
    this.#shapesMade += 1;
  }

  /** Returns what is wrong with a chunk; null: nothing, or it was an error. */
  #takeChunk(frame: SseFrame): string | null {
    const { data, dataStart, dataEnd } = frame;
    const scan = this.#scan;
    const problem = scan.read(data, dataStart, dataEnd);
    const said = errorInFrame(frame, problem === null ? scan : null);
    if (said !== null) {
      this.#failAsTold(said);
      return null;
    }
    // If a member occurs twice, clients may read either one.
    if (problem !== null || scan.hasDuplicate) return 'the upstream sent an event that is no JSON object';
    // Data that came in several lines is written as one.
    if (data !== frame.bytes) toOneLine(data);
    if (this.#id === null) this.#begin(scan);
    const splices = this.#splices;
    splices.length = 0;
    this.#textsTaken = 0;
    let choices = 0;
    if (scan.kind('choices') === 'array') {
      const { valueStart, valueEnd } = scan.member('choices')!;
      choices = this.#choices.read(data, valueStart, valueEnd, splices);
      if (choices === -1) return 'the upstream sent choices that cannot be read';
    }
    const hasUsage = scan.kind('usage') === 'object';
    const isUsageKept = hasUsage && this.#keepUsage(scan, choices);
    const { operation, includeUsage } = this.#options;
    // Clients expect a first choice in every chunk without usage, except for OpenAI's with the moderation that they asked for.
    const isModeration = choices === 0 && scan.kind('moderation') === 'object';
    if (choices === 0 && !includeUsage && !isModeration && scan.member('usage') !== undefined) return null;
    const isUsage = choices === 0 && hasUsage && !isModeration;
    const usageNull = includeUsage ? !isUsage : isModeration && hasUsage;
    chunkSplices(scan, { operation, id: this.#id!, created: this.#created, model: this.#model, usageNull }, splices);
    if (this.#textsTaken === 1 && !hasUsage) this.#keepShape(frame);
    if (isUsage) {
      if (isUsageKept) this.#usageFrame = frameOf(frame, splices);
    } else if (splices.length === 0) this.#pass(frame);
    else this.#send(frameOf(frame, splices));
    return null;
  }

  /** Settles, by the first chunk, what all chunks have in common. */
  #begin(scan: ObjectScan<ChunkField>): void {
    const { mintId, createdSeconds, model } = this.#options;
    this.#id = hasUniqueId(scan) ? valueCopy(scan, 'id') : Buffer.from(JSON.stringify(mintId()));
    this.#created = hasCreated(scan) ? valueCopy(scan, 'created') : Buffer.from(String(createdSeconds));
    this.#model = scan.kind('model') === 'string' ? valueCopy(scan, 'model') : Buffer.from(JSON.stringify(model));
  }

  /** Keeps the chunk's usage, if it can be read. The last one counts, since some upstreams report in each chunk what was used so far. */
  #keepUsage(scan: ObjectScan<ChunkField>, choices: number): boolean {
    const usage = readUsage(scan.json('usage'));
    if (usage === null) return false;
    this.#usage = usage;
    this.#usageJson = valueCopy(scan, 'usage');
    this.#isUsageFinal = choices === 0;
    this.#hasOutrunUsage = false;
    this.#usageFrame = null;
    return true;
  }

  /** The usage chunk, given the usage as JSON, for a client that asked for it. There must have been a chunk before. */
  usageChunk(usageJson: string): Buffer {
    const object = objectNames[this.#options.operation];
    const head = `"id":${this.#id},"object":"${object}","created":${this.#created},"model":${this.#model}`;
    return Buffer.from(`data: {${head},"choices":[],"usage":${usageJson}}\n\n`);
  }

  #takeText(bytes: Buffer, start: number, end: number): void {
    this.deltas += 1;
    this.#isUsageFinal = false;
    this.#hasOutrunUsage = true;
    this.textBytes += end - start;
    const length = this.#text.length + end - start;
    if (length <= textBytesMax || length === end - start) this.#text.append(bytes, start, end);
  }

  #fail(problem: string): void {
    this.state = 'failed';
    this.#problem = problem;
  }

  /** Ends with an error of the upstream, in its own words. */
  #failAsTold(said: string): void {
    this.state = 'failed';
    this.#said = said;
  }

  /** Passes a frame on as it came; neighbouring frames of one chunk become one slice. */
  #pass({ bytes, start, end }: SseFrame): void {
    if (this.#run !== bytes || this.#runEnd !== start) {
      this.#endPiece();
      this.#run = bytes;
      this.#runStart = start;
    }
    this.#runEnd = end;
  }

  #send(bytes: Uint8Array): void {
    this.#endPiece();
    this.#forward.push(bytes);
  }

  /** Writes the frame of a chunk after those of earlier chunks. */
  #write(shape: ChunkShape, data: Buffer): void {
    if (this.#written.length === 0) {
      this.#endPiece();
      this.#written.reserve(data.length + writtenExtraBytes);
    }
    shape.writeFrame(data, this.#written);
  }

  #endPiece(): void {
    if (this.#written.length > 0) this.#forward.push(this.#written.take());
    const run = this.#run;
    if (run === null) return;
    this.#run = null;
    const whole = this.#runStart === 0 && this.#runEnd === run.length;
    this.#forward.push(whole ? run : run.subarray(this.#runStart, this.#runEnd));
  }

  #flush(): readonly Uint8Array[] {
    this.#endPiece();
    if (this.#forward.length === 0) return nothing;
    const forward = this.#forward;
    this.#forward = [];
    return forward;
  }
}

/** A frame of its own, with the splices of its data. */
const frameOf = ({ bytes, start, end, data, dataStart, dataEnd }: SseFrame, splices: readonly Splice[]): Buffer =>
  splices.length === 0
    ? Buffer.from(bytes.subarray(start, end))
    : Buffer.concat([framePrefix, ...applySplices(data, dataStart, dataEnd, splices), frameSuffix]);

/** Copied, so that the chunk that contained the value can be freed. */
const valueCopy = (scan: ObjectScan<ChunkField>, name: ChunkField): Buffer => {
  const { valueStart, valueEnd } = scan.member(name)!;
  return Buffer.from(scan.bytes.subarray(valueStart, valueEnd));
};

function isDone({ data, dataStart, dataEnd }: SseFrame): boolean {
  return data[dataStart] === 0x5b && data.toString('latin1', dataStart, dataEnd).trim() === '[DONE]';
}
