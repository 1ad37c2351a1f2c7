import { type Answer, jsonAnswer, Refusal, sseContentType, sseFrame, streamAnswer } from './answer.ts';
import type { Call } from './call.ts';
import { flagField, includesUsage, integerField, stopField } from './fields.ts';
import { readInputs } from './inputs.ts';
import { cutAtStop, deltasOf, replyText } from './reply.ts';
import { checkContext, countWithin, outputLimit } from './text-limits.ts';
import { type TextUsage, textUsage } from './text-usage.ts';

/** What `max_tokens` is when it is absent, as OpenAI documents it for this operation. */
const tokensMaxDefault = 16;
const promptsMax = 128;
/** How many characters of its prompts an answer may repeat: each of `n` choices does. The gateway reads no answers of more than 16 MiB. */
const echoedLengthMax = 2_000_000;

type Choice = { text: string; tokens: number; finishReason: 'stop' | 'length' };

/** POST /completions: one answer for each prompt and each of `n`, in that order. */
export async function textCompletions(call: Call): Promise<Answer> {
  const { json, model, tokens } = call;
  const stream = flagField(json, 'stream');
  const echo = flagField(json, 'echo');
  const n = integerField(json, 'n', 1, 128) ?? 1;
  if ((integerField(json, 'best_of', 1, 128) ?? n) < n) {
    throw new Refusal("'best_of' must be at least 'n'.", { param: 'best_of', code: 'invalid_value' });
  }
  const stop = stopField(json);
  const asked = integerField(json, 'max_tokens', 0, Number.MAX_SAFE_INTEGER) ?? tokensMaxDefault;
  const tokensMax = outputLimit(asked, model.outputTokensMax, 'max_tokens');

  const prompts = readInputs(json.prompt ?? '', 'prompt', promptsMax, tokens);
  let promptTokens = 0;
  for (const prompt of prompts) {
    const count = prompt.tokens ?? (await countWithin(tokens, prompt.text, model.contextWindowTokens));
    checkContext(model.contextWindowTokens, count, asked, 'prompt');
    promptTokens += count;
  }
  const echoedLength = echo ? n * prompts.reduce((sum, prompt) => sum + prompt.text.length, 0) : 0;
  if (echoedLength > echoedLengthMax) {
    throw new Refusal(
      `Invalid value for 'echo': the choices would repeat ${echoedLength} characters of the prompts, and at most ${echoedLengthMax} fit.`,
      { param: 'echo', code: 'invalid_value' },
    );
  }
  const choices: Choice[] = [];
  for (const { text: prompt } of prompts) {
    for (let choice = 0; choice < n; choice++) {
      const full = replyText({ prompt, toolResult: '', choice });
      const said = await tokens.first(cutAtStop(full, stop), tokensMax);
      choices.push({
        text: echo ? prompt + said.text : said.text,
        tokens: said.tokens,
        finishReason: said.whole ? 'stop' : 'length',
      });
    }
  }
  const usage = textUsage(
    promptTokens,
    choices.reduce((sum, choice) => sum + choice.tokens, 0),
  );
  const head = { id: `cmpl-${call.id}`, object: 'text_completion', created: call.created, model: model.id };
  if (stream) return streamAnswer(sseContentType, completionChunks(head, choices, includesUsage(json) ? usage : null));
  const whole = choices.map((choice, index) => ({
    text: choice.text,
    index,
    logprobs: null,
    finish_reason: choice.finishReason,
  }));
  return jsonAnswer({ ...head, choices: whole, usage });
}

function* completionChunks(head: object, choices: readonly Choice[], usage: TextUsage | null): Generator<Uint8Array> {
  const start = JSON.stringify(head).slice(0, -1);
  const tail = usage === null ? '}' : ',"usage":null}';
  const frame = (index: number, text: string, finishReason: string) =>
    sseFrame(
      `${start},"choices":[{"text":${JSON.stringify(text)},"index":${index},"logprobs":null,"finish_reason":${finishReason}}]${tail}`,
    );
  const deltas = choices.map((choice) => deltasOf(choice.text));
  const longest = Math.max(...deltas.map((list) => list.length));
  for (let i = 0; i < longest; i++) {
    for (const [index, list] of deltas.entries()) {
      if (i < list.length) yield frame(index, list[i]!, 'null');
    }
  }
  for (const [index, choice] of choices.entries()) yield frame(index, '', `"${choice.finishReason}"`);
  if (usage !== null) yield sseFrame(`${start},"choices":[],"usage":${JSON.stringify(usage)}}`);
  yield sseFrame('[DONE]');
}
