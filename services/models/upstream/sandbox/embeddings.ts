import { inTurns } from '#shared/in-turns.ts';
import type { Tokenizer } from '../../bytes/tokens.ts';
import { type Answer, Refusal, streamAnswer } from './answer.ts';
import type { Call } from './call.ts';
import { integerField, wordField } from './fields.ts';
import { hashText, mixHash } from './hash.ts';
import { type Input, readInputs } from './inputs.ts';
import { countWithin } from './text-limits.ts';

const dimensionsDefault = 1536;
const dimensionsMin = 256;
const dimensionsMax = 1536;
/** OpenAI's limits for one request. */
const inputsMax = 2_048;
const requestTokensMax = 300_000;

/** A turn of the event loop: each may take five milliseconds to count when it is as long as the window. */
const inputsPerTurn = 4;

/** POST /embeddings. */
export async function embeddings({ json, model, tokens }: Call): Promise<Answer> {
  const format = wordField(json, 'encoding_format', ['float', 'base64']);
  const dimensions = integerField(json, 'dimensions', dimensionsMin, dimensionsMax) ?? dimensionsDefault;
  const inputs = readInputs(json.input ?? null, 'input', inputsMax, tokens);
  let total = 0;
  for await (const slice of inTurns(inputs, inputsPerTurn)) {
    for (const input of slice) {
      total += await countInput(input, tokens, model.contextWindowTokens);
      if (total > requestTokensMax) {
        throw new Refusal(`Requested more than ${requestTokensMax} tokens per request.`, {
          param: 'input',
          code: 'max_tokens_per_request',
        });
      }
    }
  }
  const tail = JSON.stringify({ model: model.id, usage: { prompt_tokens: total, total_tokens: total } });
  // A few kilobytes of inputs make up to 60 MB, which would be held for as long as the exchange is paused.
  return streamAnswer('application/json', pieces());

  function* pieces(): Generator<Uint8Array> {
    let before = '{"object":"list","data":[';
    for (const [index, { text }] of inputs.entries()) {
      const vector = embed(text, dimensions);
      const embedding = format === 'base64' ? base64Of(vector) : vector;
      yield Buffer.from(before + JSON.stringify({ object: 'embedding', index, embedding }));
      before = ',';
    }
    yield Buffer.from(`],${tail.slice(1)}`);
  }
}

async function countInput(input: Input, tokens: Tokenizer, windowTokens: number): Promise<number> {
  if (input.text === '') {
    throw new Refusal("Invalid value for 'input': input cannot be an empty string.", {
      param: 'input',
      code: 'invalid_value',
    });
  }
  const count = input.tokens ?? (await countWithin(tokens, input.text, windowTokens));
  if (count > windowTokens) {
    throw new Refusal(
      `This model's maximum context length is ${windowTokens} tokens, however you requested more in one input.`,
      { param: 'input', code: 'context_length_exceeded' },
    );
  }
  return count;
}

/** Positions which one feature touches. Several make a collision of two features weigh less. */
const spread = 4;

/**
 * Feature hashing: each word, and with less weight each run of three letters in it, adds to a few positions with a sign from its hash. Texts
 * that share words or parts of words are near, others are nearly at right angles. Unit length; seven decimals, so that the
 * JSON text and the float32 of base64 say the same.
 */
function embed(text: string, dimensions: number): number[] {
  const vector = new Array<number>(dimensions).fill(0);
  const add = (hash: number, weight: number) => {
    for (let i = 0; i < spread; i++) {
      hash = mixHash(hash + i + 1);
      const at = (hash >>> 1) % dimensions;
      vector[at]! += hash & 1 ? weight : -weight;
    }
  };
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [text];
  for (const word of words) {
    // Short words are mostly articles and the like; they say less about what a text is about.
    add(hashText(word), Math.min(word.length, 6) / 6);
    for (let i = 0; i + 3 <= word.length; i++) add(hashText(word.slice(i, i + 3), 0x2f), 0.3);
  }
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  // All features can cancel each other out only in theory; a unit vector is owed even then.
  if (length === 0) return vector.fill(1, 0, 1);
  return vector.map((value) => Math.round((value / length) * 1e7) / 1e7);
}

/** Little-endian float32, as OpenAI sends it. */
function base64Of(vector: readonly number[]): string {
  const bytes = Buffer.allocUnsafe(vector.length * 4);
  for (let i = 0; i < vector.length; i++) bytes.writeFloatLE(vector[i]!, i * 4);
  return bytes.toString('base64');
}
