/** Room in a budget that Billing holds for this process: a slice for many calls, or a central hold for one. */
export type HeldLease = {
  id: string;
  fencingToken: bigint;
  central: boolean;
  /** Calls are admitted up to this. Billing holds at least as much, until it is told to hold less. */
  roomNanoUsd: bigint;
  /** The cost of calls that have ended under it. */
  usedNanoUsd: bigint;
  /** The largest possible cost of calls running under it. */
  inFlightNanoUsd: bigint;
  callsInFlight: number;
  /** In monotonic milliseconds: from then on nothing is admitted under it. */
  expiresMs: number;
  /** When Billing was last told about it, and whether something has changed since. */
  settledMs: number;
  changed: boolean;
  /** When a call was last admitted under it. */
  usedMs: number;
  /** No further call is admitted under it; it is being given back. */
  closing: boolean;
};

/** Whether a slice has room for a call; slices never overshoot. */
export const hasRoom = (lease: HeldLease, costMaxNanoUsd: bigint, nowMs: number): boolean =>
  !lease.closing &&
  nowMs < lease.expiresMs &&
  lease.usedNanoUsd + lease.inFlightNanoUsd + costMaxNanoUsd <= lease.roomNanoUsd;

/** The room that calls have taken or may still take; nobody else can have it. */
export function neededRoom({ closing, roomNanoUsd, usedNanoUsd, inFlightNanoUsd }: HeldLease): bigint {
  const taken = usedNanoUsd + inFlightNanoUsd;
  return closing || taken > roomNanoUsd ? taken : roomNanoUsd;
}

export function enter(lease: HeldLease, costMaxNanoUsd: bigint, nowMs: number): void {
  lease.inFlightNanoUsd += costMaxNanoUsd;
  lease.callsInFlight += 1;
  lease.usedMs = nowMs;
  lease.changed = true;
}

export function leave(lease: HeldLease, costMaxNanoUsd: bigint, costNanoUsd: bigint): void {
  lease.inFlightNanoUsd -= costMaxNanoUsd;
  lease.usedNanoUsd += costNanoUsd;
  lease.callsInFlight -= 1;
  lease.changed = true;
}
