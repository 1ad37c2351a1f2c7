import { expect, test } from 'vitest';
import { csvText } from './csv.ts';

test('amounts in a CSV file are plain decimals down to a nano-USD, and names are text', () => {
  expect(
    csvText(
      ['cost_usd', 'name'],
      [
        [0.00000042, '=1+1'],
        [-1e-9, 'a "b", c'],
        [1234.5, null],
        [0, true],
      ],
    ),
  ).toBe('cost_usd,name\r\n0.00000042,\'=1+1\r\n-0.000000001,"a ""b"", c"\r\n1234.5,\r\n0,true\r\n');
});
