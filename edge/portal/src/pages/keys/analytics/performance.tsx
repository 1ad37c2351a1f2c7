import type { KeyAnalytics } from '../../../api/types.ts';
import { formatCompact, formatDurationMs, formatPercent, formatRate } from '../../../format/number.ts';
import { Card, Figures } from '../../../ui/card.tsx';

/** Latency and cache figures. The API leaves them out for ranges over 31 days; the card then says so. */
export function Performance({ performance }: { performance: KeyAnalytics['performance'] }) {
  const { available, p50_latency_ms, p95_latency_ms, cache_hits, cache_misses, cached_tokens, tokens_per_second } =
    performance;
  if (!available) {
    return (
      <Card title="Performance">
        <p className="text-sm text-faint">
          Latency and cache figures are computed for ranges of up to 31 days. Choose a shorter range to see them.
        </p>
      </Card>
    );
  }
  const looked = (cache_hits ?? 0) + (cache_misses ?? 0);
  const figures: readonly (readonly [string, string])[] = [
    ['Median latency', p50_latency_ms == null ? '—' : formatDurationMs(p50_latency_ms)],
    ['95th percentile', p95_latency_ms == null ? '—' : formatDurationMs(p95_latency_ms)],
    ['Tokens per second', tokens_per_second == null ? '—' : formatRate(tokens_per_second)],
    [
      'Cache hits',
      looked === 0
        ? '—'
        : `${formatCompact(cache_hits ?? 0)} of ${formatCompact(looked)} (${formatPercent((cache_hits ?? 0) / looked)})`,
    ],
    ['Cached tokens', cached_tokens == null ? '—' : formatCompact(cached_tokens)],
  ];
  return (
    <Card title="Performance">
      <Figures figures={figures} />
    </Card>
  );
}
