import { type Answer, jsonAnswer, Refusal, sseContentType, sseFrame, streamAnswer } from './answer.ts';
import type { Call } from './call.ts';
import { flagField, includesUsage, integerField, stopField } from './fields.ts';
import { readInputs } from './inputs.ts';
import { checkListed, logprobsOf, type TextDelta, type TokenLogprob, tokenDeltas } from './logprobs.ts';
import { cutAtStop, deltasOf, replyText } from './reply.ts';
import { checkContext, countWithin, outputLimit } from './text-limits.ts';
import { type TextUsage, textUsage } from './text-usage.ts';

/** What `max_tokens` is when it is absent, as OpenAI documents it for this operation. */
const tokensMaxDefault = 16;
const promptsMax = 128;
/** How many characters of its prompts an answer may repeat: each of `n` choices does. The gateway reads no answers of more than 16 MiB. */
const echoedLengthMax = 2_000_000;

type Choice = {
  text: string;
  tokens: number;
  finishReason: 'stop' | 'length';
  /** The tokens of the text; null when they were not asked for. */
  listed: TokenLogprob[] | null;
};

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
  const top = integerField(json, 'logprobs', 0, 20);
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
  let listed = echo ? n * promptTokens : 0;
  if (top !== undefined) checkListed(listed, top, 'logprobs');
  for (const { text: prompt } of prompts) {
    const prefix = echo ? prompt : '';
    const prefixTokens = top === undefined ? [] : await logprobsOf(tokens, prefix, top);
    for (let choice = 0; choice < n; choice++) {
      const full = replyText({ prompt, toolResult: '', choice });
      const said = await tokens.first(cutAtStop(full, stop), tokensMax);
      listed += said.tokens;
      if (top !== undefined) checkListed(listed, top, 'logprobs');
      choices.push({
        text: prefix + said.text,
        tokens: said.tokens,
        finishReason: said.whole ? 'stop' : 'length',
        listed: top === undefined ? null : [...prefixTokens, ...(await logprobsOf(tokens, said.text, top))],
      });
    }
  }
  const usage = textUsage(
    promptTokens,
    choices.reduce((sum, choice) => sum + choice.tokens, 0),
  );
  const head = { id: `cmpl-${call.id}`, object: 'text_completion', created: call.created, model: model.id };
  if (stream) {
    return streamAnswer(sseContentType, completionChunks(head, choices, echo, includesUsage(json) ? usage : null));
  }
  const whole = choices.map((choice, index) => ({
    text: choice.text,
    index,
    logprobs: choice.listed && textLogprobs(choiceDeltas(choice), 0, echo),
    finish_reason: choice.finishReason,
  }));
  return jsonAnswer({ ...head, choices: whole, usage });
}

function* completionChunks(
  head: object,
  choices: readonly Choice[],
  echo: boolean,
  usage: TextUsage | null,
): Generator<Uint8Array> {
  const start = JSON.stringify(head).slice(0, -1);
  const tail = usage === null ? '}' : ',"usage":null}';
  const frame = (index: number, text: string, logprobs: object | null, finishReason: string) =>
    sseFrame(
      `${start},"choices":[{"text":${JSON.stringify(text)},"index":${index},"logprobs":${JSON.stringify(logprobs)},"finish_reason":${finishReason}}]${tail}`,
    );
  const open = choices.map((choice) => ({ deltas: choiceDeltas(choice), offset: 0, listed: choice.listed }));
  const longest = Math.max(...open.map(({ deltas }) => deltas.length));
  for (let i = 0; i < longest; i++) {
    for (const [index, choice] of open.entries()) {
      const delta = choice.deltas[i];
      if (delta === undefined) continue;
      const logprobs = choice.listed && textLogprobs([delta], choice.offset, echo && i === 0);
      yield frame(index, delta.text, logprobs, 'null');
      choice.offset += delta.text.length;
    }
  }
  for (const [index, choice] of choices.entries()) yield frame(index, '', null, `"${choice.finishReason}"`);
  if (usage !== null) yield sseFrame(`${start},"choices":[],"usage":${JSON.stringify(usage)}}`);
  yield sseFrame('[DONE]');
}

const choiceDeltas = ({ text, listed }: Choice): TextDelta[] =>
  listed === null ? deltasOf(text).map((text) => ({ text, logprobs: [] })) : tokenDeltas(listed);

/**
 * `logprobs` of a text that begins at `offset` of its choice, in characters. The first token of a prompt (`isPrompt`) follows upon nothing,
 * and has none.
 */
function textLogprobs(deltas: readonly TextDelta[], offset: number, isPrompt: boolean) {
  const listed = deltas.flatMap(({ logprobs }) => logprobs);
  const offsets: number[] = [];
  let at = offset;
  for (const { text, logprobs } of deltas) {
    offsets.push(...logprobs.map(() => at));
    at += text.length;
  }
  const unlessFirst = <Value>(value: (token: TokenLogprob) => Value) =>
    listed.map((token, i) => (isPrompt && i === 0 ? null : value(token)));
  return {
    tokens: listed.map(({ token }) => token),
    token_logprobs: unlessFirst(({ logprob }) => logprob),
    top_logprobs: unlessFirst(({ top_logprobs }) =>
      Object.fromEntries(top_logprobs.map(({ token, logprob }) => [token, logprob])),
    ),
    text_offset: offsets,
  };
}
