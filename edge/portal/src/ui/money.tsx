import { formatUsd, formatUsdExact } from '../format/number.ts';

type MoneyProps = {
  usd: number | null | undefined;
  /** Shows all digits, where amounts have to add up to what is paid. */
  exact?: boolean;
  /** The most decimals among amounts in the same column: this one takes the room of as many, so that the points are aligned. */
  decimals?: number;
};

/** An amount, with all its digits on hover. */
export function Money({ usd, exact = false, decimals = 0 }: MoneyProps) {
  if (usd == null) return <span className="text-faint">—</span>;
  const text = textOf(usd, exact);
  return (
    <span
      className="tabular whitespace-nowrap after:invisible after:content-[attr(data-missing)]"
      title={formatUsdExact(usd)}
      // Shown by CSS, so that neither a copy nor a screen reader takes it for a part of the number.
      data-missing={'0'.repeat(Math.max(0, decimals - decimalsIn(text)))}
    >
      {text}
    </span>
  );
}

/** The most decimals that any of these amounts is shown with. */
export const decimalsMax = (amounts: readonly (number | null)[], exact: boolean): number =>
  Math.max(0, ...amounts.map((usd) => (usd === null ? 0 : decimalsIn(textOf(usd, exact)))));

const textOf = (usd: number, exact: boolean): string => (exact ? formatUsdExact(usd) : formatUsd(usd));
const decimalsIn = (text: string): number => text.length - text.indexOf('.') - 1;
