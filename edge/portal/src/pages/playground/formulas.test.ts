import { expect, test } from 'vitest';
import { formulasAsCode } from './formulas.ts';

test.each([
  ['on lines of its own', 'So:\n\\[\na = b\n- c\n\\]\nand', 'So:\n```\n\\[\na = b\n- c\n\\]\n```\nand'],
  ['between dollars', '$$\nx_{i} * y_{j}\n$$', '```\n$$\nx_{i} * y_{j}\n$$\n```'],
  ['in a list', '1. One:\n   \\[ x \\\\ y \\]\n2. Two', '1. One:\n   ```\n   \\[ x \\\\ y \\]\n   ```\n2. Two'],
  [
    'within a sentence',
    'Set \\( \\{ a*b*c \\} \\), then \\[ x \\].',
    'Set ``\\( \\{ a*b*c \\} \\)``, then ``\\[ x \\]``.',
  ],
  ['at the beginning of a line', '\\[ x \\] and\n\n\\[ y \\]', '``\\[ x \\]`` and\n\n```\n\\[ y \\]\n```'],
])('a formula %s becomes code with every sign of it', (_, markdown, expected) => {
  expect(formulasAsCode(markdown)).toBe(expected);
});

test.each([
  ['prices', 'It costs $5 or $10, and $$ is a process.'],
  ['code', 'Run `echo \\(a\\)`, ``\\[ ` \\]`` or\n\n```tex\n\\[ x \\]\n```\n\n~~~\n$$ x $$\n~~~'],
  ['code that is still growing', '```tex\n\\[ x \\]\n'],
  ['a formula that is still growing', 'So \\( a + '],
  ['links', '[one](https://example.com/a_(b)) and \\*stars\\*'],
])('nothing else is changed: %s', (_, markdown) => {
  expect(formulasAsCode(markdown)).toBe(markdown);
});

test('text made to keep a formula from ending is read in no time', () => {
  const before = process.threadCpuUsage();
  formulasAsCode('\\['.repeat(50_000));
  formulasAsCode('`'.repeat(50_000));
  formulasAsCode('` `` '.repeat(20_000));
  expect(process.threadCpuUsage(before).user / 1_000).toBeLessThan(3_000);
});
