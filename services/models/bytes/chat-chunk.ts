import { isObject } from '#shared/is-object.ts';
import { fieldSet, ObjectScan } from './json-scan.ts';
import { closeBracket, comma, openBrace, skipSpace } from './json-walk.ts';
import { inOrder, type MemberEdit, memberSplices, type Splice } from './splice.ts';
import { brokenOff } from './stream-error.ts';

export const chunkFields = fieldSet(
  'id',
  'object',
  'created',
  'model',
  'choices',
  'usage',
  'error',
  'type',
  'obfuscation',
  'moderation',
);
const choiceFields = fieldSet('index', 'delta', 'text', 'finish_reason');
const deltaFields = fieldSet(
  'role',
  'content',
  'reasoning_content',
  'reasoning',
  'refusal',
  'tool_calls',
  'function_call',
  'audio',
  'images',
);

type ChoiceField = (typeof choiceFields.names)[number];
export type ChunkField = (typeof chunkFields.names)[number];
export type ChatOperation = 'chat' | 'completions';

/** What is known of one choice so far. */
type ChoiceState = {
  hasRole: boolean;
  isFinished: boolean;
  /** Index and id of the tool call that came last; -1 before the first. */
  callIndex: number;
  callId: unknown;
};

/**
 * The most choices that are tracked where fewer were asked for: OpenAI allows 128, but an upstream that keeps counting must not fill the
 * memory.
 */
const choicesUnasked = 1024;

/** Takes the text that a choice's delta adds: the inside of a JSON string, still escaped. */
type TakeText = (bytes: Buffer, start: number, end: number) => void;

/** Reads the `choices` of stream chunks and collects the changes they need. */
export class ChoicesReader {
  readonly #operation: ChatOperation;
  readonly #takeText: TakeText;
  readonly #choicesMax: number;
  readonly #choice = new ObjectScan(choiceFields);
  readonly #delta = new ObjectScan(deltaFields);
  /**
   * Whether no other chunk differs from the one read last in a single text: it has the first of a choice, which declares its role, or
   * reasoning under two names.
   */
  isUnlikeOthers = false;
  /** Whether a choice reported that it broke off. */
  hasBroken = false;
  /** By index. */
  readonly choices = new Map<number, ChoiceState>();

  /** `answers`: how many choices were asked for. */
  constructor(operation: ChatOperation, answers: number, takeText: TakeText) {
    this.#operation = operation;
    this.#takeText = takeText;
    this.#choicesMax = Math.max(choicesUnasked, answers);
  }

  /**
   * Reads the array whose bracket is at `start` of a well-formed document; appends the changes it needs to `splices`. Returns the number of
   * choices in it, or -1 when it is no array of choices.
   */
  read(bytes: Buffer, start: number, end: number, splices: Splice[]): number {
    this.isUnlikeOthers = false;
    let position = skipSpace(bytes, start + 1, end);
    let ordinal = 0;
    while (bytes[position] !== closeBracket) {
      if (bytes[position] !== openBrace) return -1;
      if (!this.#readChoice(bytes, position, end, ordinal, splices)) return -1;
      ordinal += 1;
      position = skipSpace(bytes, this.#choice.close + 1, end);
      if (bytes[position] === comma) position = skipSpace(bytes, position + 1, end);
    }
    return ordinal;
  }

  #readChoice(bytes: Buffer, start: number, end: number, ordinal: number, splices: Splice[]): boolean {
    const scan = this.#choice;
    if (scan.readPart(bytes, start, end) !== null || scan.hasDuplicate) return false;
    const numbered = scan.number('index');
    const index = numbered ?? ordinal;
    let state = this.choices.get(index);
    if (state === undefined) {
      if (this.choices.size >= this.#choicesMax) return false;
      state = { hasRole: false, isFinished: false, callIndex: -1, callId: null };
      this.choices.set(index, state);
      this.isUnlikeOthers = true;
    }
    const edits: MemberEdit<ChoiceField>[] = [];
    if (numbered === undefined) edits.push(['index', String(ordinal)]);
    const finishReason = scan.kind('finish_reason') === 'string' ? scan.string('finish_reason') : undefined;
    if (finishReason === brokenOff) this.hasBroken = true;
    // While there is none, some upstreams write an empty string, at which typed clients fail.
    else if (finishReason === '') edits.push(['finish_reason', 'null']);
    else if (finishReason !== undefined) state.isFinished = true;
    if (this.#operation === 'completions') this.#readText(scan, 'text');
    else if (scan.kind('delta') === 'object') {
      if (!this.#readDelta(scan, state, splices)) return false;
    } else edits.push(['delta', state.hasRole ? '{}' : '{"role":"assistant"}']);
    if (this.#operation === 'chat') state.hasRole = true;
    if (edits.length > 0) splices.push(...memberSplices(scan, edits));
    return true;
  }

  #readDelta(choice: ObjectScan<ChoiceField>, state: ChoiceState, splices: Splice[]): boolean {
    const { valueStart, valueEnd } = choice.member('delta')!;
    const scan = this.#delta;
    if (scan.readPart(choice.bytes, valueStart, valueEnd) !== null || scan.hasDuplicate) return false;
    const role = scan.string('role');
    // The role belongs only into the first delta: clients that join deltas would read "assistantassistant".
    if (state.hasRole) {
      if (role !== undefined) splices.push(...memberSplices(scan, [['role', null]]));
    } else if (role === undefined || role === '') {
      splices.push(...memberSplices(scan, [['role', '"assistant"']]));
    }
    this.#readText(scan, 'content');
    // vLLM writes it under its old name as well.
    if (hasText(scan, 'reasoning') && hasText(scan, 'reasoning_content')) this.isUnlikeOthers = true;
    this.#readText(scan, hasText(scan, 'reasoning') ? 'reasoning' : 'reasoning_content');
    this.#readText(scan, 'refusal');
    if (scan.kind('tool_calls') === 'array') {
      const calls = scan.json('tool_calls') as unknown[];
      this.#readCalls(calls);
      if (numberCalls(calls, state)) splices.push(...memberSplices(scan, [['tool_calls', JSON.stringify(calls)]]));
    }
    if (scan.kind('function_call') === 'object') this.#readCalls([{ function: scan.json('function_call') }]);
    if (scan.kind('content') === 'array') this.#takeWords(wordsOf(scan.json('content')));
    if (scan.kind('audio') === 'object') this.#readAudio(scan.json('audio') as Record<string, unknown>);
    // So does OpenRouter, for one, send what models draw.
    if (scan.kind('images') === 'array' && scan.valueBytes('images') > '[]'.length) this.#takeText(noBytes, 0, 0);
    return true;
  }

  #readText<Name extends string>(scan: ObjectScan<Name>, name: Name): void {
    if (!hasText(scan, name)) return;
    const { valueStart, valueEnd } = scan.member(name)!;
    this.#takeText(scan.bytes, valueStart + 1, valueEnd - 1);
  }

  /** Names and arguments of tool calls are tokens that the model wrote. */
  #readCalls(calls: readonly unknown[]): void {
    for (const call of calls) {
      if (!isObject(call)) continue;
      const { function: called, custom } = call as { function?: ToolCall; custom?: ToolCall };
      this.#takeWords([called?.name, called?.arguments, custom?.name, custom?.input].filter(isText).join(''));
    }
  }

  /** Sound without a transcript is output as well. */
  #readAudio({ transcript, data }: Record<string, unknown>): void {
    if (isText(transcript) && transcript !== '') this.#takeWords(transcript);
    else if (isText(data) && data !== '') this.#takeText(noBytes, 0, 0);
  }

  #takeWords(words: string): void {
    if (words === '') return;
    const bytes = Buffer.from(JSON.stringify(words));
    this.#takeText(bytes, 1, bytes.length - 1);
  }
}

/** Whether a member is a string longer than the two quotes of an empty one. */
const hasText = <Name extends string>(scan: ObjectScan<Name>, name: Name): boolean =>
  scan.kind(name) === 'string' && scan.valueBytes(name) > 2;

/**
 * Adds the index that some upstreams leave out of tool calls: clients join the pieces of a call by it. A new id starts a new call, or a
 * name where there is no id. Returns whether anything was added.
 */
function numberCalls(calls: readonly unknown[], state: ChoiceState): boolean {
  let isChanged = false;
  for (const call of calls) {
    if (!isObject(call)) continue;
    const id = call.id || null;
    if (typeof call.index === 'number') {
      state.callIndex = call.index;
    } else {
      const isNew = id === null ? Boolean((call.function as ToolCall | undefined)?.name) : id !== state.callId;
      if (isNew || state.callIndex === -1) state.callIndex += 1;
      call.index = state.callIndex;
      isChanged = true;
    }
    state.callId = id ?? state.callId;
  }
  return isChanged;
}

type ToolCall = { name?: unknown; arguments?: unknown; input?: unknown } | null;

const noBytes = Buffer.alloc(0);

const isText = (value: unknown): value is string => typeof value === 'string';

/** The words of a content that comes in parts, such as Mistral's, whose reasoning is a part with parts of its own. */
function wordsOf(content: unknown): string {
  if (isText(content)) return content;
  if (Array.isArray(content)) return content.map(wordsOf).join('');
  return isObject(content) ? wordsOf(content.text ?? content.thinking) : '';
}

/** The changes that a chunk needs outside its choices. */
type ChunkRules = {
  operation: ChatOperation;
  /** The answer's id and creation time, as JSON text: the same in each chunk. */
  id: Buffer;
  created: Buffer;
  /** As JSON text, for a chunk that does not name its model. */
  model: Buffer;
  /** Whether the chunk must state that it has no usage, whatever its upstream says. */
  usageNull: boolean;
};

/** Appends the changes by which a chunk's other members satisfy the contract (openai-contract.md section 3). */
export function chunkSplices(scan: ObjectScan<ChunkField>, rules: ChunkRules, splices: Splice[]): Splice[] {
  const edits: MemberEdit<ChunkField>[] = [];
  if (!hasValue(scan, 'id', rules.id)) edits.push(['id', rules.id]);
  if (!hasValue(scan, 'created', rules.created)) edits.push(['created', rules.created]);
  if (scan.kind('object') !== 'string') edits.push(['object', JSON.stringify(objectNames[rules.operation])]);
  if (scan.kind('model') !== 'string') edits.push(['model', rules.model]);
  if (scan.kind('choices') !== 'array') edits.push(['choices', '[]']);
  if (rules.usageNull && scan.kind('usage') !== 'null') edits.push(['usage', 'null']);
  if (edits.length > 0) splices.push(...memberSplices(scan, edits));
  return inOrder(splices);
}

/** An id in JSON shorter than this, quotes included, is taken for a counter, such as Ollama's `chatcmpl-123`. */
const uniqueIdBytes = 22;

/** Whether an answer, or a chunk of one, has an id that no other answer shares. */
export const hasUniqueId = <Name extends string>(scan: ObjectScan<Name | 'id'>): boolean =>
  scan.kind('id') === 'string' && scan.valueBytes('id') >= uniqueIdBytes;

const wholeSeconds = /^[1-9]\d*$/;

/** Whether an answer, or a chunk of one, says when it was created. Typed clients fail at a fraction, even at `.0`. */
export function hasCreated<Name extends string>(scan: ObjectScan<Name | 'created'>): boolean {
  const member = scan.member('created');
  return member !== undefined && wholeSeconds.test(scan.bytes.toString('latin1', member.valueStart, member.valueEnd));
}

/** The `object` of stream chunks. */
export const objectNames: Record<ChatOperation, string> = {
  chat: 'chat.completion.chunk',
  completions: 'text_completion',
};

function hasValue(scan: ObjectScan<ChunkField>, name: ChunkField, text: Buffer): boolean {
  const member = scan.member(name);
  if (member === undefined || member.valueEnd - member.valueStart !== text.length) return false;
  for (let offset = 0; offset < text.length; offset += 1) {
    if (scan.bytes[member.valueStart + offset] !== text[offset]) return false;
  }
  return true;
}
