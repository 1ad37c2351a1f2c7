/** Members whose strings are not words of the prompt: media, and what only steers the answer. */
const notWords = new Set(['model', 'image_url', 'input_audio', 'file', 'user', 'metadata']);

/** The words of a request's prompt, for counting its tokens when the upstream has not said how many they were. */
export function promptText(body: Uint8Array): string {
  const words: string[] = [];
  const parsed = JSON.parse(Buffer.from(body).toString('utf8')) as Record<string, unknown>;
  for (const part of [parsed.messages, parsed.prompt, parsed.input, parsed.tools]) collect(part, words);
  return words.join('\n');
}

function collect(value: unknown, words: string[]): void {
  if (typeof value === 'string') words.push(value);
  else if (Array.isArray(value)) for (const item of value) collect(item, words);
  else if (typeof value === 'object' && value !== null) {
    for (const [name, member] of Object.entries(value)) if (!notWords.has(name)) collect(member, words);
  }
}
