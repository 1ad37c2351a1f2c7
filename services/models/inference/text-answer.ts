import { prefixedId } from '#shared/ids.ts';
import { hasCreated, hasUniqueId } from '../bytes/chat-chunk.ts';
import { fieldSet, ObjectScan } from '../bytes/json-scan.ts';
import { type ReportedUsage, readUsage } from '../bytes/reported-usage.ts';
import { applySplices, inOrder, type MemberEdit, memberSplices, type Splice } from '../bytes/splice.ts';
import { brokenOff, hasError, isError } from '../bytes/stream-error.ts';
import type { CallTools } from './call-tools.ts';
import type { AnswerEnd } from './prepared-call.ts';
import { outputText } from './prompt-text.ts';
import { measuresOf, type UsageBound } from './usage-bound.ts';
import type { WholeAnswer } from './whole-answer-reader.ts';

export type TextAnswerRules = {
  isChat: boolean;
  /** As the client named it, for an upstream that does not. */
  model: string;
  tools: CallTools;
  bound: UsageBound;
  /** Tokens of the prompt, for an upstream that does not say. */
  countInputTokens(): Promise<number>;
  /** What the model wrote of an answer's text. */
  ownText(text: string): string;
};

const answerFields = fieldSet('id', 'object', 'created', 'model', 'choices', 'usage', 'error', 'type');
const choiceFields = fieldSet('index', 'finish_reason', 'error');

/**
 * Reads a whole chat or text completion. What its upstream omits is added, and an id that is not unique is replaced (openai-contract.md
 * section 4); the rest stays byte for byte. Null when it is no completion.
 */
export function readTextAnswer(
  body: Buffer,
  { isChat, model, tools, bound, countInputTokens, ownText }: TextAnswerRules,
): WholeAnswer | null {
  const splices: Splice[] = [];
  const choice = new ObjectScan(choiceFields);
  let isBroken = false;
  const scan = new ObjectScan(answerFields, {
    in: 'choices',
    scan: choice,
    take(place) {
      isBroken ||= choice.hasDuplicate || hasError(choice) || choice.string('finish_reason') === brokenOff;
      if (isBroken) return;
      // A choice without an index gets its position.
      if (choice.kind('index') !== 'number') splices.push(...memberSplices(choice, [['index', String(place)]]));
    },
  });
  if (scan.read(body) !== null || scan.hasDuplicate) return null;
  const hasChoices = scan.kind('choices') === 'array';
  if (hasChoices && scan.itemCount === -1) return null;
  if (isBroken || isError(scan)) return null;

  const edits: MemberEdit<(typeof answerFields.names)[number]>[] = [];
  if (!hasUniqueId(scan)) edits.push(['id', JSON.stringify(prefixedId(isChat ? 'chatcmpl-' : 'cmpl-'))]);
  if (scan.kind('object') !== 'string') edits.push(['object', isChat ? '"chat.completion"' : '"text_completion"']);
  if (!hasCreated(scan)) edits.push(['created', String(Math.floor(tools.clock.now() / 1000))]);
  if (scan.kind('model') !== 'string') edits.push(['model', JSON.stringify(model)]);
  if (!hasChoices) edits.push(['choices', '[]']);
  if (edits.length > 0) splices.push(...memberSplices(scan, edits));

  const countOutputTokens = async () => bound.counted(await (await tools.tokenizer()).count(ownText(outputText(body))));
  const usage = bound.believed(readUsage(scan.json('usage')));
  const { reported, counted } = textUsed(usage, { countInputTokens, countOutputTokens });
  const forward = splices.length === 0 ? [body] : applySplices(body, 0, body.length, inOrder(splices));
  return { forward, reported, counted };
}

/** What a text used: as its upstream reported it, with the rest as the gateway counts it. */
export function textUsed(
  usage: ReportedUsage | null,
  own: { countInputTokens(): Promise<number>; countOutputTokens(): Promise<number> },
): Pick<AnswerEnd, 'reported' | 'counted'> {
  const isWhole = usage !== null && usage.inputTokens !== null && usage.outputTokens !== null;
  return {
    reported: isWhole ? measuresOf(usage) : null,
    counted: async () => {
      const inputTokens = usage?.inputTokens ?? (await own.countInputTokens());
      return {
        inputTokens,
        cachedInputTokens: Math.min(usage?.cachedInputTokens ?? 0, inputTokens),
        outputTokens: usage?.outputTokens ?? (await own.countOutputTokens()),
      };
    },
  };
}
