import { hashText, mixHash } from './hash.ts';

/** What the reply is made from; nothing else goes into it. */
type ReplySource = {
  /** The last thing the user said, or the prompt. */
  prompt: string;
  /** What a tool answered since then; empty when none did. */
  toolResult: string;
  /** Which of several choices this is. */
  choice: number;
};

const openings = [
  'Hello from the Model Gateway sandbox.',
  'This is the Model Gateway sandbox speaking.',
  'Greetings from the sandbox of the Model Gateway.',
  'You have reached the Model Gateway sandbox.',
];

const honesty = [
  'No model ran for this answer: it is computed from your request, and the same request always gets the same words.',
  'There is no model behind me; I compose this text from your request alone, always in the same way.',
  'I am a stand-in without a model, so please take these words as a test signal and not as knowledge.',
];

const closings = [
  'Connect a real upstream to get real answers.',
  'When a real upstream is connected, its answer will stand here.',
  'Everything around this text, from token counts to billing, works as it does with a real model.',
];

const filler = [
  'The sandbox keeps talking because you asked for a text of a certain length.',
  'Each of these sentences is fixed, and only their order follows from your request.',
  'A stream of them is useful to watch how chunks travel through the gateway.',
  'Their tokens are counted as those of any other text, and they cost what the price list says.',
  'Nothing here is meant as information about the world outside.',
  'A longer answer only needs a larger number in the request.',
];

/** The largest text that a request can ask for by "… words". */
const wordsMax = 20_000;

/** A pleasant and honest answer that follows from the source alone. "… 300 words" in the prompt gives exactly that many words. */
export function replyText({ prompt, toolResult, choice }: ReplySource): string {
  const seed = mixHash(hashText(prompt) + choice);
  const sentences = [pick(openings, seed + choice), pick(honesty, seed >>> 4)];
  if (toolResult !== '') sentences.push(`The tool answered: “${excerpt(toolResult)}”.`);
  if (prompt.trim() !== '') sentences.push(`You wrote ${wordCount(prompt)}: “${excerpt(prompt)}”.`);
  sentences.push(pick(closings, seed >>> 8));
  const wanted = wordsWanted(prompt);
  const text = wanted === 0 ? sentences.join(' ') : exactly(wanted, sentences, seed);
  return text.toWellFormed();
}

/** The first words of a text on one line. */
export function excerpt(text: string): string {
  const line = text.slice(0, 400).replace(/\s+/g, ' ').trim();
  if (line.length <= 160 && text.length <= 400) return line;
  const cut = line.slice(0, 160);
  return `${cut.slice(0, Math.max(cut.lastIndexOf(' '), 80))}…`.toWellFormed();
}

const pick = (list: readonly string[], hash: number): string => list[hash % list.length]!;

function wordCount(text: string): string {
  const count = text.match(/\S+/g)?.length ?? 0;
  return count === 1 ? 'one word' : `${count} words`;
}

function wordsWanted(prompt: string): number {
  const match = /\b(\d{1,6}) words\b/i.exec(prompt);
  return match === null ? 0 : Math.min(Number(match[1]), wordsMax);
}

function exactly(count: number, sentences: readonly string[], seed: number): string {
  const words = sentences.join(' ').split(' ');
  for (let hash = seed; words.length < count; hash = mixHash(hash + 1)) words.push(...pick(filler, hash).split(' '));
  return words.slice(0, count).join(' ');
}

/** A text in the deltas of a stream: words with the space before them, long ones in parts. Joined they are the text. */
export const deltasOf = (text: string): string[] => text.match(/\s*\S{1,24}|\s+$/gu) ?? [];

/** Cuts a text before the first stop sequence in it. */
export function cutAtStop(text: string, stop: readonly string[]): string {
  let end = text.length;
  for (const sequence of stop) {
    const at = text.indexOf(sequence);
    if (at !== -1 && at < end) end = at;
  }
  return text.slice(0, end);
}
