import { formatUsd, formatUsdExact } from '../format/number.ts';

/** An amount, with all its digits on hover. `exact` shows all digits at once, where amounts have to add up to what is paid. */
export function Money({ usd, exact = false }: { usd: number | null | undefined; exact?: boolean }) {
  if (usd == null) return <span className="text-faint">—</span>;
  return (
    <span className="tabular" title={formatUsdExact(usd)}>
      {exact ? formatUsdExact(usd) : formatUsd(usd)}
    </span>
  );
}
