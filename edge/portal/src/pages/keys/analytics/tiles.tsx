import type { Volume } from '../../../api/types.ts';
import { changeRatio, formatCompact, formatCount, formatPercent } from '../../../format/number.ts';
import { Tile, TileRow } from '../../../ui/card.tsx';

type Headline = {
  label: string;
  /** Null if there is no such figure: without requests there is no success rate. */
  of: (volume: Volume) => number | null;
  show: (value: number) => string;
  exact?: (value: number) => string;
};

const ratio = (part: number, whole: number) => (whole === 0 ? null : part / whole);

/** The eight headline tiles (service.md, Key analytics report). Volume only, no money. */
const headlines: readonly Headline[] = [
  { label: 'Requests', of: (v) => v.requests, show: formatCompact, exact: formatCount },
  { label: 'Success rate', of: (v) => ratio(v.successful_requests, v.requests), show: formatPercent },
  { label: 'Failed requests', of: (v) => v.failed_requests, show: formatCompact, exact: formatCount },
  { label: 'Tokens per request', of: (v) => ratio(v.total_tokens, v.requests), show: formatCompact },
  { label: 'Tokens', of: (v) => v.total_tokens, show: formatCompact, exact: formatCount },
  { label: 'Input tokens', of: (v) => v.input_tokens, show: formatCompact, exact: formatCount },
  { label: 'Output tokens', of: (v) => v.output_tokens, show: formatCompact, exact: formatCount },
  { label: 'Cached input tokens', of: (v) => v.cached_input_tokens, show: formatCompact, exact: formatCount },
];

export function AnalyticsTiles({ totals, previous }: { totals: Volume; previous: Volume }) {
  return (
    <TileRow>
      {headlines.map(({ label, of, show, exact }) => {
        const now = of(totals);
        const before = of(previous);
        return (
          <Tile
            key={label}
            label={label}
            value={now === null ? '—' : show(now)}
            title={now === null ? undefined : exact?.(now)}
            detail={
              <span title={`Before: ${before === null ? '—' : (exact ?? show)(before)}`}>
                {changeText(now, before)}
              </span>
            }
          />
        );
      })}
    </TileRow>
  );
}

/** The change from the previous period; a change that rounds to nothing counts as none. */
function changeText(now: number | null, before: number | null): string {
  if (now === null) return 'No requests';
  if (before === null) return 'None before';
  const change = changeRatio(now, before);
  if (change === null) return now === 0 ? 'Same as before' : 'None before';
  const percent = formatPercent(Math.abs(change));
  return percent === '0%' ? 'Same as before' : `${change > 0 ? '↑' : '↓'} ${percent} vs previous`;
}
