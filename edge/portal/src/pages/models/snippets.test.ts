import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { chatSnippet } from './snippets.ts';

test('a conversation is pasted as the words that it has, whatever they are, and none of them is obeyed by a terminal', () => {
  const words = `it's "q" \\ $HOME \`id\` $(id) !! </script>\n\r\t\0\x1b[A\x7f\x7f\x9b\u2028\u202e EOF''' 😀`;
  const request = { model: `m'$(id)"`, messages: [{ role: 'assistant' as const, content: words }], temperature: "0'5" };
  for (const language of ['curl', 'python', 'node'] as const) {
    expect(chatSnippet(language, request, 'http://gateway.test'), language).not.toMatch(/[^\P{C}\n]/u);
  }
  const inShell = chatSnippet('curl', request, 'http://gateway.test').replace('curl', 'printf "%s\\n"');
  const sent = execFileSync('bash', ['-c', inShell], { encoding: 'utf8' }).trimEnd().split('\n').at(-1)!;
  expect(JSON.parse(sent)).toEqual({ ...request, stream: true });
});
