import type { UsageSummary } from '../../api/types.ts';
import { formatCompact, formatCount, formatUsd, formatUsdExact } from '../../format/number.ts';
import { Link } from '../../router/link.tsx';
import { usePlace } from '../../router/router.ts';
import { Tile, TileRow } from '../../ui/card.tsx';
import { failedRequests } from './request-filters.tsx';

/** The totals of a range. */
export function SummaryTiles({ summary }: { summary: UsageSummary }) {
  // By this it renders again when the address changes, which the link continues.
  const { path } = usePlace();
  return (
    <TileRow>
      <Tile label="Cost" value={formatUsd(summary.cost_usd)} title={formatUsdExact(summary.cost_usd)} />
      <Tile
        label="Requests"
        value={formatCompact(summary.requests)}
        title={formatCount(summary.requests)}
        detail={
          summary.failed_requests === 0 ? (
            '0 failed'
          ) : (
            <Link href={path + failedRequests()} className="underline hover:text-ink">
              {formatCount(summary.failed_requests)} failed
            </Link>
          )
        }
      />
      <Tile
        label="Input tokens"
        value={formatCompact(summary.input_tokens)}
        title={formatCount(summary.input_tokens)}
        detail={`${formatCompact(summary.cached_input_tokens)} cached`}
      />
      <Tile
        label="Output tokens"
        value={formatCompact(summary.output_tokens)}
        title={formatCount(summary.output_tokens)}
      />
    </TileRow>
  );
}
