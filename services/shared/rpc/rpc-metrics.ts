import type { DescMethod } from '@bufbuild/protobuf';
import { codeToString } from '@connectrpc/connect/protocol-connect';
import type { Registry } from 'prom-client';
import { rpcCodeOf } from '../error-table.ts';
import type { ErrorReason } from '../errors.ts';
import { CellHistogram, type HistogramCell } from '../metrics.ts';

/** Metrics of the calls that this process answers. */
export type RpcMetrics = {
  /** Counts one call; `reason` is undefined when it succeeded. */
  observe(method: DescMethod, reason: ErrorReason | undefined, latencyMs: number): void;
};

const bucketsSeconds = [0.00001, 0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120];

/** Registers the histogram of answered calls; once per registry. */
export function createRpcMetrics(registry: Registry): RpcMetrics {
  const histogram = new CellHistogram(registry, {
    name: 'gateway_rpc_server_duration_seconds',
    help: 'Duration of answered RPCs, by service, method and code; streams are measured to their end.',
    buckets: bucketsSeconds,
  });
  const cellsByMethod = new Map<DescMethod, HistogramCell[]>();
  return {
    observe(method, reason, latencyMs) {
      const code = reason === undefined ? 0 : rpcCodeOf(reason);
      const cells = cellsByMethod.get(method) ?? [];
      if (cells.length === 0) cellsByMethod.set(method, cells);
      cells[code] ??= histogram.cell({
        service: method.parent.typeName,
        method: method.name,
        code: reason === undefined ? 'ok' : codeToString(rpcCodeOf(reason)),
      });
      cells[code].observe(latencyMs / 1000);
    },
  };
}
