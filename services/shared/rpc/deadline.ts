/** How long a unary call may take if its caller set no deadline, in milliseconds. Streams have none by default. */
export const unaryTimeoutMsDefault = 10_000;

/** The deadline of a call: the given one, else the default; 0 or less means none (as in Connect's CallOptions). */
export function effectiveTimeoutMs(asked: number | undefined, fallback: number | undefined): number | undefined {
  if (asked === undefined) return fallback;
  return asked > 0 ? asked : undefined;
}
