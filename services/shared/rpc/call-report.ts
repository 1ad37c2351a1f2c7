import type { DescMethod } from '@bufbuild/protobuf';
import type { ContextValues } from '@connectrpc/connect';
import type { Clock } from '../clock.ts';
import { databaseError } from '../db/errors.ts';
import { cancelled, ErrorReason, GatewayError, reasonName } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { RepeatedFailures } from '../repeated-failures.ts';
import { type Caller, callerAmong } from './caller.ts';
import { fromConnectError, publicPart } from './connect-errors.ts';
import type { RpcMetrics } from './rpc-metrics.ts';

/** One call from its server's point of view. */
export type ReportedCall = {
  method: DescMethod;
  values: ContextValues;
  /** When the call began, on the monotonic clock. */
  startedMs: number;
  /** Set when the call was cancelled or its deadline passed. */
  abortReason?: unknown;
};

/** Records how calls ended. Each call is reported exactly once, on every transport. */
export type CallReport = {
  /** The moment at which a call begins. */
  now(): number;
  succeeded(call: ReportedCall): void;
  /** Logs the failure in full and returns what the client may see of it. */
  failed(call: ReportedCall, error: unknown): GatewayError;
};

/** Reports calls to the log (method, outcome, time, caller; never bodies) and to the metrics. */
export function createCallReport(deps: { logger: Logger; clock: Clock; metrics?: RpcMetrics }): CallReport {
  const { logger, clock, metrics } = deps;
  const logsSuccess = logger.isLevelEnabled('debug');
  const repeated = new Map<string, RepeatedFailures>();
  const repeatedOf = (name: string): RepeatedFailures => {
    const kept = repeated.get(name) ?? new RepeatedFailures(name, logger, 0);
    repeated.set(name, kept);
    return kept;
  };
  return {
    now: clock.monotonic,
    succeeded(call) {
      if (metrics === undefined && !logsSuccess) return;
      const latencyMs = clock.monotonic() - call.startedMs;
      metrics?.observe(call.method, undefined, latencyMs);
      if (logsSuccess) logger.debug(callFields(call, latencyMs), 'rpc answered');
    },
    failed(call, thrown) {
      const latencyMs = clock.monotonic() - call.startedMs;
      const error = failureOf(call, thrown);
      metrics?.observe(call.method, error.reason, latencyMs);
      const likeOthers = alike.get(error.reason);
      const fields = {
        ...callFields(call, latencyMs),
        reason: reasonName(error.reason),
        internal: error.details.internal,
        ...error.details.logged,
      };
      if (error.reason === ErrorReason.INTERNAL) logger.error({ ...fields, err: thrown }, 'rpc failed');
      // The caller has left, as followers of a stream eventually do.
      else if (error.reason === ErrorReason.CANCELLED) logger.debug(fields, error.message);
      // While the database is away all calls of a method fail alike, and anybody who reaches the port may call without a token: a line for
      // each could fill the disk that it needs.
      else if (likeOthers !== undefined) {
        repeatedOf(`${likeOthers.what} ${nameOf(call.method)}`).failed(error, likeOthers.consequence);
        logger.debug(fields, error.message);
      } else logger.info(fields, error.message);
      return publicPart(error);
    },
  };
}

/** Failures of which one tells of all. Those of one reason hide none of another. */
const alike: ReadonlyMap<ErrorReason, { what: string; consequence: string }> = new Map([
  [ErrorReason.OVERLOADED, { what: 'answering', consequence: 'fails; callers are told to try again' }],
  [ErrorReason.UNAUTHENTICATED_SERVICE, { what: 'the service token of a call to', consequence: 'was refused' }],
]);

/**
 * What a handler throws after its call was aborted only echoes the abort, unless it is a GatewayError. A database that is out of reach is
 * not the handler's fault, and a call broken off from outside is not this process's.
 */
function failureOf(call: ReportedCall, thrown: unknown): GatewayError {
  if (call.abortReason === undefined || thrown instanceof GatewayError) return fromConnectError(databaseError(thrown));
  const abort = fromConnectError(call.abortReason);
  return abort.reason === ErrorReason.INTERNAL ? cancelled(abort) : abort;
}

const nameOf = (method: DescMethod): string => `${method.parent.typeName}/${method.name}`;

const callFields = (call: ReportedCall, latencyMs: number) => ({
  method: nameOf(call.method),
  latencyMs: Math.round(latencyMs * 1000) / 1000,
  ...callerFields(callerAmong(call.values)),
});

const callerFields = (caller: Caller | undefined) =>
  caller && {
    requestId: caller.requestId || undefined,
    tenantId: caller.tenantId || undefined,
    userId: caller.userId || undefined,
    apiKeyId: caller.apiKeyId || undefined,
    service: caller.service || undefined,
  };
