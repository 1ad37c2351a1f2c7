/**
 * The name of an amount of money in a JSON text which JSON.parse has read as another one, since a double holds 15 to 17 digits; undefined
 * when none is. JSON.parse must have taken the text. Amounts are exact decimals (decisions.md, Common).
 */
export function inexactAmount(text: string): string | undefined {
  for (const [, name, number] of text.matchAll(amountMember)) {
    if (decimal(number!) !== decimal(String(Number(number)))) return name;
  }
  return undefined;
}

/** Within a string each quote has a backslash before it, so this is no part of one. */
const amountMember = /"([^"\\]*_usd)"\s*:\s*(-?\d[\d.eE+-]*)/g;

/** Longer numbers cannot be amounts, and are not worth the time. */
const numberLengthMax = 64;

/** A number's digits and the power of ten behind them, the same for the same number. */
function decimal(number: string): string {
  const [, sign, whole, fraction = '', exponent = '0'] =
    decimalPattern.exec(number.slice(0, numberLengthMax + 1)) ?? [];
  if (whole === undefined || number.length > numberLengthMax) return number;
  const digits = (whole + fraction).replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  if (significant === '') return '0';
  return `${sign}${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`;
}

const decimalPattern = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;
