import {
  type Answer,
  createdSeconds,
  eventStream,
  jsonAnswer,
  type Piece,
  textOf,
  tokensOf,
  tokenText,
} from './answer.ts';
import type { ReportedUsage, TruthEntry } from './truth-log.ts';

/** Chat completions and text completions, whole or as a stream, in the dialect of the request's behaviour. */
export function textAnswer(entry: TruthEntry): Answer {
  const tokens = tokensOf(entry);
  const choices = typeof entry.json?.n === 'number' ? entry.json.n : 1;
  if (entry.stream) return eventStream(textStream(entry, tokens, choices));
  const usage = entry.behaviour.usage === 'absent' ? null : usageOf(entry, tokens * choices);
  const text = textOf(tokens) + 'x'.repeat(entry.behaviour.paddingBytes ?? 0);
  const finish_reason = finishReason(entry, tokens);
  const body = {
    ...envelope(entry, false),
    choices: Array.from({ length: choices }, (_, index) =>
      entry.operation === 'chat'
        ? { index, message: { role: 'assistant', content: text, refusal: null }, logprobs: null, finish_reason }
        : { index, text, logprobs: null, finish_reason },
    ),
    ...(usage !== null && { usage }),
    ...(entry.behaviour.dialect === 'llama.cpp' && { timings: { predicted_n: tokens } }),
  };
  return jsonAnswer(body, { tokens: tokens * choices, text: text.repeat(choices), usage });
}

function* textStream(entry: TruthEntry, tokens: number, choices: number): Generator<Piece> {
  const { behaviour, operation } = entry;
  const dialect = behaviour.dialect ?? 'openai';
  const asked = (entry.json?.stream_options as { include_usage?: boolean } | undefined)?.include_usage === true;
  const mode = behaviour.usage ?? 'as-asked';
  const usageLast = mode === 'always' || mode === 'zeroes-first' || (mode === 'as-asked' && asked);
  const head = envelope(entry, true);

  const frame = (choice: object | null, generated: number): Piece => {
    const usage =
      mode === 'each-chunk' ? usageOf(entry, generated) : mode === 'zeroes-first' ? usageWith(0, 0, entry) : null;
    const chunk = {
      ...head,
      ...((choice !== null || dialect !== 'localai') && { choices: choice === null ? [] : [choice] }),
      ...(usage !== null ? { usage } : asked && mode === 'as-asked' && { usage: null }),
    };
    return { bytes: `data: ${JSON.stringify(chunk)}\n\n`, tokens: 0, usage };
  };
  const choiceOf = (index: number, delta: object, finish: string | null): object => {
    const position = dialect === 'localai' ? {} : { index };
    if (operation === 'completions') return { ...position, text: '', ...delta, logprobs: null, finish_reason: finish };
    const role = dialect === 'ollama' ? { role: 'assistant' } : {};
    return { ...position, delta: { ...role, ...delta }, logprobs: null, finish_reason: finish };
  };

  if (operation === 'chat') {
    for (let index = 0; index < choices; index += 1) {
      const role =
        dialect === 'vllm'
          ? { role: 'assistant', content: '', reasoning_content: null }
          : { role: 'assistant', content: '' };
      yield frame(choiceOf(index, role, null), 0);
    }
  }
  let generated = 0;
  for (let token = 0; token < tokens; token += 1) {
    const text = token === 0 ? tokenText(0) + 'x'.repeat(behaviour.paddingBytes ?? 0) : tokenText(token);
    for (let index = 0; index < choices; index += 1) {
      generated += 1;
      const delta = operation === 'chat' ? { content: text } : { text };
      yield { ...frame(choiceOf(index, delta, null), generated), tokens: 1, text };
    }
  }
  for (let index = 0; index < choices; index += 1) {
    yield frame(choiceOf(index, {}, finishReason(entry, tokens)), generated);
  }
  if (usageLast) {
    const usage = usageOf(entry, generated);
    const choicesField = dialect === 'localai' ? {} : { choices: [] };
    yield { bytes: `data: ${JSON.stringify({ ...head, ...choicesField, usage })}\n\n`, tokens: 0, usage };
  }
  yield { bytes: 'data: [DONE]\n\n', tokens: 0 };
}

/** The beginning of each body and chunk. */
function envelope(entry: TruthEntry, chunk: boolean): object {
  const kind = chunk && entry.operation === 'chat' ? 'chat.completion.chunk' : 'chat.completion';
  const object = entry.operation === 'chat' ? kind : 'text_completion';
  switch (entry.behaviour.dialect ?? 'openai') {
    case 'localai':
      return { id: entry.responseId, model: entry.model };
    case 'ollama':
      return {
        id: entry.responseId,
        object,
        created: createdSeconds,
        model: entry.model,
        system_fingerprint: 'fp_ollama',
      };
    case 'openai':
      return { id: entry.responseId, object, created: createdSeconds, model: entry.model, service_tier: 'default' };
    default:
      return { id: entry.responseId, object, created: createdSeconds, model: entry.model };
  }
}

const finishReason = (entry: TruthEntry, tokens: number): string =>
  tokens < (entry.behaviour.tokens ?? 16) ? 'length' : 'stop';

function usageOf(entry: TruthEntry, completionTokens: number): ReportedUsage {
  const { usageReported } = entry.behaviour;
  return usageWith(
    usageReported?.prompt_tokens ?? entry.promptTokens,
    usageReported?.completion_tokens ?? completionTokens,
    entry,
  );
}

function usageWith(promptTokens: number, completionTokens: number, { behaviour }: TruthEntry): ReportedUsage {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    ...(behaviour.cachedTokens !== undefined && { prompt_tokens_details: { cached_tokens: behaviour.cachedTokens } }),
  };
}
