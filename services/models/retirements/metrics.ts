import { timestampMs } from '@bufbuild/protobuf/wkt';
import { Gauge, type Registry } from 'prom-client';
import type { Clock } from '#shared/clock.ts';
import type { CatalogFeed } from '../catalog/catalog-feed.ts';

const dayMs = 86_400_000;

/** How long retiring models have left; beside the edges' count of their requests, this shows whose users have not moved yet. */
export function retirementMetrics({
  registry,
  feed,
  clock,
}: {
  registry: Registry;
  feed: Pick<CatalogFeed, 'snapshot'>;
  clock: Clock;
}): void {
  new Gauge({
    name: 'gateway_model_retirement_days_left',
    help: 'Days until the retirement of an announced model; negative once it is retired, absent without a date.',
    labelNames: ['model'],
    registers: [registry],
    collect() {
      this.reset();
      for (const { model } of feed.snapshot.models) {
        const sunsetAt = model!.retirement?.sunsetAt;
        if (sunsetAt !== undefined) this.set({ model: model!.name }, (timestampMs(sunsetAt) - clock.now()) / dayMs);
      }
    },
  });
}
