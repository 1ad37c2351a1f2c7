import { expect, test } from 'vitest';
import { escapeHtml, forTerminal, oneLine, requiredName, shownName } from './safe-text.ts';

test('text in HTML opens no element, ends no attribute and reads as it was', () => {
  expect(escapeHtml(`<b title="a" lang='b'>&amp;</b>`)).toBe(
    '&#60;b title=&#34;a&#34; lang=&#39;b&#39;&#62;&#38;amp;&#60;/b&#62;',
  );
});

test('half a surrogate pair, which UTF-8 cannot carry, is replaced', () => {
  expect(escapeHtml('a\ud800')).toBe('a\ufffd');
  expect(oneLine('a\ud800')).toBe('a\ufffd');
});

test('one line ends no header and reverses no text', () => {
  expect(oneLine(' Acme\r\nBcc: a@b.example\u2028\u202egro ')).toBe('Acme Bcc: a@b.example gro');
});

test('a terminal obeys nothing in a text, whose lines stay', () => {
  expect(forTerminal('a\u001b[2J\u009b2J\n\u202egro\u2066\u0007')).toBe('a?[2J?2J\n?gro??');
});

test('a name is stored as it looks: composed, and without blanks around it', () => {
  expect(shownName(' Zoe\u0308\u00a0', 'name')).toBe('Zoë');
  expect(() => requiredName(' e\u0301 ', 'name')).toThrow('expected 2 to 255 characters');
  expect(() => shownName('\u2800', 'name')).toThrow('needs visible characters');
});
