import type { DescMethod } from '@bufbuild/protobuf';
import { codeToString } from '@connectrpc/connect/protocol-connect';
import { Histogram, type Registry } from 'prom-client';
import type { ErrorReason } from '../errors.ts';
import { codeOf } from './connect-errors.ts';

/** Measures the calls which this process answers. */
export type RpcMetrics = {
  /** Counts one call; `reason` is undefined when it succeeded. */
  observe(method: DescMethod, reason: ErrorReason | undefined, latencyMs: number): void;
};

const bucketsSeconds = [0.00001, 0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120];

/** Registers the histogram of answered calls; once per registry. */
export function createRpcMetrics(registry: Registry): RpcMetrics {
  const histogram = new Histogram({
    name: 'modelgateway_rpc_server_duration_seconds',
    help: 'Duration of answered RPCs by service, method and code; streams are measured to their end.',
    labelNames: ['service', 'method', 'code'],
    buckets: bucketsSeconds,
    registers: [registry],
  });
  // A label look-up costs about a microsecond, a bound child a fraction of it.
  const childrenByMethod = new Map<DescMethod, Histogram.Internal<string>[]>();
  return {
    observe(method, reason, latencyMs) {
      const code = reason === undefined ? 0 : codeOf(reason);
      const children = childrenByMethod.get(method) ?? [];
      if (children.length === 0) childrenByMethod.set(method, children);
      children[code] ??= histogram.labels(
        method.parent.typeName,
        method.name,
        reason === undefined ? 'ok' : codeToString(codeOf(reason)),
      );
      children[code].observe(latencyMs / 1000);
    },
  };
}
