import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { upstreamMetrics } from './metrics.ts';

test('a deployment shows all outcomes from the beginning, and times from its first answer on', async () => {
  const registry = new Registry();
  const metricsOf = upstreamMetrics(registry);
  metricsOf('m', 'idle');
  const busy = metricsOf('m', 'busy');
  busy.answered(30);
  busy.answered(70);
  const shown = await registry.metrics();
  for (const outcome of ['answered', 'failed', 'rate_limited', 'abandoned']) {
    expect(shown).toContain(`gateway_upstream_requests_total{model="m",deployment="idle",outcome="${outcome}"} 0`);
  }
  const times = shown.split('\n').filter((line) => line.startsWith('gateway_upstream_first_byte_seconds_'));
  expect(times.filter((line) => line.includes('"idle"'))).toEqual([]);
  expect(times).toContain('gateway_upstream_first_byte_seconds_count{model="m",deployment="busy"} 2');
});
