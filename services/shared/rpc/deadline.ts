/** How long a unary call may take when its caller set no deadline, in milliseconds. Streams have none by default. */
export const unaryTimeoutMsDefault = 10_000;

/** The deadline of a call: what was asked for, else the default; 0 or less asks for none (as in Connect's CallOptions). */
export function effectiveTimeoutMs(asked: number | undefined, fallback: number | undefined): number | undefined {
  if (asked === undefined) return fallback;
  return asked > 0 ? asked : undefined;
}
