import { formatUsd, formatUsdExact } from '../format/number.ts';

/** An amount, with all of its digits on hover. */
export function Money({ usd }: { usd: number | null | undefined }) {
  if (usd == null) return <span className="text-faint">—</span>;
  return (
    <span className="tabular" title={formatUsdExact(usd)}>
      {formatUsd(usd)}
    </span>
  );
}
