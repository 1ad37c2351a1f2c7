import { sseFrame } from './answer.ts';
import type { ChatChoice } from './chat-choice.ts';
import { callDeltas } from './chat-tools.ts';
import { tokenDeltas } from './logprobs.ts';
import { deltasOf } from './reply.ts';
import type { TextUsage } from './text-usage.ts';

/**
 * The frames of a chat stream: each choice's role, its deltas in turn with those of the other choices, its finish_reason; then the usage
 * when it is wanted, and [DONE].
 */
export function* chatChunks(
  head: object,
  choices: readonly ChatChoice[],
  usage: TextUsage | null,
  id: string,
): Generator<Uint8Array> {
  // Everything that the frames of a stream have in common is written once.
  const start = JSON.stringify(head).slice(0, -1);
  const tail = usage === null ? '}' : ',"usage":null}';
  const frame = (index: number, { delta, logprobs = 'null' }: Delta, finishReason: string) =>
    sseFrame(
      `${start},"choices":[{"index":${index},"delta":${delta},"logprobs":${logprobs},"finish_reason":${finishReason}}]${tail}`,
    );

  const deltas = choices.map((choice, index) => deltasOfChoice(choice, id, index));
  for (const [index, choice] of choices.entries()) {
    const content = choice.content === null ? 'null' : '""';
    yield frame(index, { delta: `{"role":"assistant","content":${content},"refusal":null}` }, 'null');
  }
  const longest = Math.max(...deltas.map((list) => list.length));
  for (let i = 0; i < longest; i++) {
    for (const [index, list] of deltas.entries()) {
      if (i < list.length) yield frame(index, list[i]!, 'null');
    }
  }
  for (const [index, choice] of choices.entries()) yield frame(index, { delta: '{}' }, `"${choice.finishReason}"`);
  if (usage !== null) yield sseFrame(`${start},"choices":[],"usage":${JSON.stringify(usage)}}`);
  yield sseFrame('[DONE]');
}

/** Both in JSON. */
type Delta = { delta: string; logprobs?: string };

function deltasOfChoice({ content, logprobs, toolCalls }: ChatChoice, id: string, index: number): Delta[] {
  if (content === null) return callDeltas(toolCalls, id, index).map((delta) => ({ delta: JSON.stringify(delta) }));
  const said = (text: string) => JSON.stringify({ content: text });
  if (logprobs === null) return deltasOf(content).map((text) => ({ delta: said(text) }));
  return tokenDeltas(logprobs).map(({ text, logprobs }) => ({
    delta: said(text),
    logprobs: JSON.stringify({ content: logprobs, refusal: null }),
  }));
}
