import type { IncomingHttpHeaders } from 'node:http';
import { parseTimeout as parseConnectTimeout } from '@connectrpc/connect/protocol-connect';
import { parseTimeout as parseGrpcTimeout } from '@connectrpc/connect/protocol-grpc';
import { timerMsMax } from '../clock.ts';

/** How long a unary call may take if its caller set no deadline, in milliseconds. Streams have none by default. */
export const unaryTimeoutMsDefault = 10_000;

/** The deadline of a call: the given one, else the default; 0 or less means none (as in Connect's CallOptions). */
export function effectiveTimeoutMs(asked: number | undefined, fallback: number | undefined): number | undefined {
  if (asked === undefined) return fallback;
  return asked > 0 ? asked : undefined;
}

const deadlines = [
  ['grpc-timeout', parseGrpcTimeout],
  ['connect-timeout-ms', parseConnectTimeout],
] as const;

/** Removes a deadline beyond the reach of timers: clients that allow months mean that there is none. */
export function dropDistantDeadline(headers: IncomingHttpHeaders): void {
  for (const [name, parse] of deadlines) {
    const value = headers[name];
    if (typeof value === 'string' && (parse(value, Infinity).timeoutMs ?? 0) > timerMsMax) delete headers[name];
  }
}
