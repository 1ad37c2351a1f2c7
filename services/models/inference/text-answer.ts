import { prefixedId } from '#shared/ids.ts';
import { objectsIn } from '../bytes/array-items.ts';
import { hasUniqueId } from '../bytes/chat-chunk.ts';
import { fieldSet, ObjectScan } from '../bytes/json-scan.ts';
import { readUsage } from '../bytes/reported-usage.ts';
import { applySplices, inOrder, type MemberEdit, memberSplices, type Splice } from '../bytes/splice.ts';
import type { CallTools } from './call-tools.ts';
import { outputText } from './prompt-text.ts';
import { measuresOf, type WholeAnswer } from './whole-answer-reader.ts';

export type TextAnswerRules = {
  isChat: boolean;
  tools: CallTools;
  /** Tokens of the prompt, for an upstream that does not say. */
  countInputTokens(): Promise<number>;
};

const answerFields = fieldSet('id', 'object', 'created', 'choices', 'usage', 'error');
const choiceFields = fieldSet('index');

/**
 * Reads a whole chat or text completion. What its upstream leaves out is added, and an id that is not unique replaced
 * (openai-contract.md section 4); all else stays byte for byte. Null when it is no completion.
 */
export function readTextAnswer(body: Buffer, { isChat, tools, countInputTokens }: TextAnswerRules): WholeAnswer | null {
  const scan = new ObjectScan(answerFields);
  if (scan.read(body) !== null || scan.hasDuplicate) return null;
  const array = scan.kind('choices') === 'array' ? scan.member('choices')! : null;
  const choices = array === null ? [] : objectsIn(body, array.valueStart, array.valueEnd);
  // Some servers answer 200 and an error.
  const saysError = scan.kind('error') !== undefined && scan.kind('error') !== 'null';
  if (choices === null || (choices.length === 0 && saysError)) return null;

  const edits: MemberEdit<(typeof answerFields.names)[number]>[] = [];
  if (!hasUniqueId(scan)) edits.push(['id', JSON.stringify(prefixedId(isChat ? 'chatcmpl-' : 'cmpl-'))]);
  if (scan.kind('object') !== 'string') edits.push(['object', isChat ? '"chat.completion"' : '"text_completion"']);
  if (!((scan.number('created') ?? 0) > 0)) edits.push(['created', String(Math.floor(tools.clock.now() / 1000))]);
  if (array === null) edits.push(['choices', '[]']);
  const splices = memberSplices(scan, edits);
  numberChoices(body, choices, splices);

  const usage = readUsage(scan.json('usage'));
  return {
    forward: splices.length === 0 ? [body] : applySplices(body, 0, body.length, inOrder(splices)),
    reported: usage === null ? null : measuresOf(usage),
    counted: async () => {
      const inputTokens = await countInputTokens();
      return { inputTokens, outputTokens: (await tools.tokenizer()).count(outputText(body)) };
    },
  };
}

/** Gives choices without an index the one of their place. */
function numberChoices(body: Buffer, choices: readonly { start: number; end: number }[], splices: Splice[]): void {
  choices.forEach(({ start, end }, ordinal) => {
    const choice = new ObjectScan(choiceFields);
    if (choice.read(body, start, end) === null && choice.kind('index') !== 'number') {
      splices.push(...memberSplices(choice, [['index', String(ordinal)]]));
    }
  });
}
