import { Health, HealthCheckResponse_ServingStatus as Status } from '#gen/grpc/health/v1/health_pb.ts';
import { timerMsMax } from '../clock.ts';
import { notFound } from '../errors.ts';
import { Signal } from '../signal.ts';
import { type RpcService, rpcService } from './rpc-service.ts';

/** The state of this process's services in the standard protocol grpc.health.v1, open to everybody. */
export type RpcHealth = {
  rpc: RpcService;
  /** Sets whether a service (by its full proto name; `''` for the process) accepts calls, and tells watchers. */
  set(name: string, serving: boolean): void;
  /** Takes all services out of service, as the first step of a shutdown. */
  stopServing(): void;
};

export function createHealth(names: readonly string[]): RpcHealth {
  const statuses = new Map<string, Status>(['', ...names].map((name) => [name, Status.SERVING]));
  const changed = new Signal();

  const rpc = rpcService(
    Health,
    {
      check({ service }) {
        const status = statuses.get(service);
        if (status === undefined) throw notFound('service');
        return { status };
      },
      list: () => ({
        statuses: Object.fromEntries([...statuses].map(([name, status]) => [name, { status }])),
      }),
      async *watch({ service }, { signal }) {
        let told: Status | undefined;
        while (!signal.aborted) {
          const status = statuses.get(service) ?? Status.SERVICE_UNKNOWN;
          if (status !== told) {
            told = status;
            yield { status };
          } else await changed.next(timerMsMax, signal);
        }
      },
    },
    { callers: 'anyone' },
  );

  return {
    rpc,
    set(name, serving) {
      statuses.set(name, serving ? Status.SERVING : Status.NOT_SERVING);
      changed.raise();
    },
    stopServing() {
      for (const name of statuses.keys()) statuses.set(name, Status.NOT_SERVING);
      changed.raise();
    },
  };
}
