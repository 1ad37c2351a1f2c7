import { type ChatStreamOptions, doneFrame } from '../bytes/chat-stream.ts';
import { framePrefix, frameSuffix } from '../bytes/chunk-shape.ts';
import { fieldSet, ObjectScan } from '../bytes/json-scan.ts';
import { applySplices, inOrder, type MemberEdit, memberSplices, type Splice } from '../bytes/splice.ts';
import { toOneLine } from '../bytes/sse.ts';
import { ChatStreamReader } from './chat-stream-reader.ts';
import { readTextAnswer, type TextAnswerRules } from './text-answer.ts';
import type { WholeAnswer } from './whole-answer-reader.ts';

/**
 * Reads a whole chat or text completion that answers a request for a stream: the client gets it as a stream of one chunk, subject to the
 * rules for any chunk, and it is metered as the whole answer that it is. Null when it is no completion, or a choice does not say why it
 * ended.
 */
export function readTextAnswerAsStream(
  body: Buffer,
  rules: TextAnswerRules,
  chat: ChatStreamOptions,
): WholeAnswer | null {
  const events = eventsOf(body, chat);
  const answer = events === null ? null : readTextAnswer(body, rules);
  if (events === null || answer === null) return null;
  const stream = new ChatStreamReader({ ...rules, chat });
  // In one piece: the bound on the size of an event that is still to come does not apply to one that is there.
  const chunk = stream.push(events);
  const { forward, forwardWith, failure } = stream.end(false);
  if (failure !== null) return null;
  return {
    forward: [...chunk, ...forward],
    forwardWith: forwardWith && ((used) => [...chunk, ...forwardWith(used)]),
    reported: answer.reported,
    counted: answer.counted,
  };
}

const answerFields = fieldSet('object', 'choices', 'usage');
const choiceFields = fieldSet('message', 'delta', 'text');

/** A completion as the events of a stream; null when it has no choices, or one without output. */
function eventsOf(body: Buffer, { operation, includeUsage }: ChatStreamOptions): Buffer | null {
  const isChat = operation === 'chat';
  const splices: Splice[] = [];
  const choice = new ObjectScan(choiceFields);
  let areChoices = true;
  const scan = new ObjectScan(answerFields, {
    in: 'choices',
    scan: choice,
    take() {
      areChoices &&=
        !choice.hasDuplicate && (isChat ? choice.kind('message') === 'object' : choice.kind('text') === 'string');
      const message = choice.member('message');
      if (!areChoices || !isChat || message === undefined) return;
      splices.push({ start: message.start, end: message.valueStart, text: '"delta":' });
      splices.push(...memberSplices(choice, [['delta', null]]));
    },
  });
  if (scan.read(body) !== null || scan.hasDuplicate || scan.itemCount < 1 || !areChoices) return null;
  const edits: MemberEdit<(typeof answerFields.names)[number]>[] = [];
  if (isChat) edits.push(['object', '"chat.completion.chunk"']);
  // If the client asked for it, it goes into a chunk of its own.
  if (!includeUsage) edits.push(['usage', null]);
  splices.push(...memberSplices(scan, edits));
  const data = applySplices(body, 0, body.length, inOrder(splices));
  const events = Buffer.concat([framePrefix, ...data, frameSuffix, doneFrame]);
  toOneLine(events.subarray(framePrefix.length, -(frameSuffix.length + doneFrame.length)));
  return events;
}
