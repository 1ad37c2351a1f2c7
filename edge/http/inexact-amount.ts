/**
 * The name of an amount of money in a JSON text that JSON.parse has changed, since a double holds 15 to 17 digits; undefined when there is
 * none. JSON.parse must have accepted the text. Amounts are exact decimals (decisions.md, Common).
 */
export function inexactAmount(text: string): string | undefined {
  for (const [, name, number] of text.matchAll(amountMember)) {
    if (decimal(number!) !== decimal(String(Number(number)))) return name;
  }
  return undefined;
}

/** Inside a string each quote follows a backslash, so this cannot match there. */
const amountMember = /"([^"\\]*_usd)"\s*:\s*(-?\d[\d.eE+-]*)/g;

/** Longer numbers cannot be amounts, and are not worth the time. */
const numberLengthMax = 64;

/** A number's significant digits and its power of ten: the same for equal numbers. */
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
