import { Type } from 'typebox';
import { invalidValue } from '#shared/errors.ts';
import { amountMax, type NanoUsd, usdFromNumber } from '#shared/money.ts';

/** JSON numbers only: a string, NaN, or a number with more than nine decimals is refused. */
export const amountSchema = Type.Number({ description: 'In USD, with at most nine decimals.' });

/** Reads an amount in USD, exactly. */
export function readAmount(value: number, param: string, allowed: 'from 0' | 'above 0' | 'not 0'): NanoUsd {
  const amount = usdFromNumber(value);
  if (amount !== null && amount <= amountMax && amount >= -amountMax && isAllowed(amount, allowed)) return amount;
  throw invalidValue(param, `expected an amount in USD ${allowed}, at most a billion, with at most nine decimals`);
}

function isAllowed(amount: NanoUsd, allowed: 'from 0' | 'above 0' | 'not 0'): boolean {
  switch (allowed) {
    case 'from 0':
      return amount >= 0n;
    case 'above 0':
      return amount > 0n;
    default:
      return amount !== 0n;
  }
}
