import type { Client } from '@connectrpc/connect';
import type { BillingService, LeaseResponse } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import type { CallerConstraints, JobHold } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import { ErrorReason, gatewayError, hasReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { FailureLogger } from '#shared/repeated-failures.ts';
import { type Caller, callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import { outOfReachIfLate } from '#shared/rpc/connect-errors.ts';
import { UnwantedRoom } from '#shared/unwanted-room.ts';
import { type BudgetView, newView, refusingKind, sliceCallsMax, sliceCallsMin } from './budget-view.ts';
import { enter, type HeldLease, hasRoom, leave } from './held-lease.ts';
import { freeHold, type Hold } from './hold.ts';
import { jobHold } from './job-hold.ts';
import { heldLease, LeaseSettler, timeToLiveMs } from './lease-settler.ts';

export type BudgetsDeps = {
  billing: Pick<Client<typeof BillingService>, 'lease' | 'settle' | 'releaseHold'>;
  clock: Pick<Clock, 'monotonic'>;
  logger: FailureLogger;
  /** The id by which Billing knows this process: a UUID made at its start. */
  holderId?: string;
};

type BudgetCaller = Pick<Caller, 'tenantId' | 'userId' | 'apiKeyId'> & Partial<Pick<Caller, 'requestId'>>;
/** A budget that a call needs, with the cap if it is a key's. */
type Need = { view: BudgetView; limitNanoUsd: bigint | undefined };
/** What Billing granted: slices, which already count the call, and central holds for this call alone. */
type Granted = { slices: HeldLease[]; central: HeldLease[]; allowed: bigint | null };

/** "No limit" is believed without asking for this long; after that Billing is asked again while the answer still serves. */
const unlimitedFreshMs = 1_000;
const unlimitedServesMs = 3_000;
/**
 * While Billing is out of reach, callers without a limit are served for this long (reliability.md, How), and Billing is asked every second.
 */
const unlimitedWithoutBillingMs = 60_000;
const retryMs = 1_000;
/** How long a budget counts as near its limit after a central hold or a refusal. */
const nearMs = 1_000;
/** How long Billing is waited for, however often it is asked. */
const rpcTimeoutMs = 3_000;
const attemptsMax = 2;
const viewsBeforeSweep = 20_000;

/**
 * The budgets of one process (design.md, Snapshots): slices leased from Billing, held in memory. A call far from every limit is held
 * without waiting; near a limit each call asks Billing for itself.
 */
export class Budgets {
  readonly #billing: BudgetsDeps['billing'];
  readonly #logger: BudgetsDeps['logger'];
  readonly #now: () => number;
  readonly #holderId: string;
  readonly #views = new Map<string, BudgetView>();
  readonly #settler: LeaseSettler;
  /** What Billing may have granted, or may still grant, to requests that were given up. */
  readonly #unwanted: UnwantedRoom;
  #sweepAt = viewsBeforeSweep;

  constructor({ billing, clock, logger, holderId = uuidv7() }: BudgetsDeps) {
    this.#billing = billing;
    this.#logger = logger;
    this.#now = clock.monotonic;
    this.#holderId = holderId;
    this.#unwanted = new UnwantedRoom(billing, 'inference');
    this.#settler = new LeaseSettler({ billing, holderId, now: clock.monotonic, logger });
  }

  /**
   * Holds the largest possible cost of a call in the budgets of the key, the user and the organization, in this order. Throws or rejects
   * with SPEND_CAP_EXCEEDED, COST_LIMIT_EXCEEDED, PAYG_CAP_EXCEEDED or CREDIT_BALANCE_EXHAUSTED of the first one without room, and with
   * OVERLOADED when that cannot be told.
   *
   * A null cost means a model without a price: it is refused to callers with any limit, since nothing could enforce it. `costMin` lets a
   * call run with less than its largest cost, down to that; 0: only with all of it. `nowMs` is the monotonic time.
   */
  hold(
    caller: BudgetCaller,
    constraints: Pick<CallerConstraints, 'spendCapNanoUsd'> | undefined,
    costMaxNanoUsd: bigint | null,
    costMinNanoUsd = 0n,
    nowMs = this.#now(),
  ): Hold | Promise<Hold> {
    if (costMaxNanoUsd === 0n) return freeHold;
    const needs = this.#needs(caller, constraints?.spendCapNanoUsd, nowMs);
    if (needs.every((need) => isCovered(need, costMaxNanoUsd ?? 0n, nowMs))) {
      return this.#holdHere(caller, needs, costMaxNanoUsd, nowMs);
    }
    return this.#holdByAsking(caller, needs, costMaxNanoUsd, costMinNanoUsd);
  }

  /** The room that is already held for a background job's call. */
  holdOfJob(hold: JobHold): Hold {
    return jobHold({ billing: this.#billing, logger: this.#logger }, hold);
  }

  /** Settles leases and forgets unused budgets; called every `settleIntervalMs`. Never rejects. */
  tick(): Promise<void> {
    this.#sweepViews();
    this.#tellUnwanted();
    return this.#settler.tick();
  }

  /** Gives back everything that running calls do not need. */
  close(): Promise<void> {
    return this.#settler.close();
  }

  /** The number of leases that Billing holds for this process. */
  get leaseCount(): number {
    return this.#settler.size;
  }

  #needs({ tenantId, userId, apiKeyId }: BudgetCaller, spendCapNanoUsd: bigint | undefined, nowMs: number): Need[] {
    const needs: Need[] = [
      { view: this.#view(BudgetKind.USER, `${tenantId} ${userId}`, nowMs), limitNanoUsd: undefined },
      { view: this.#view(BudgetKind.ORGANIZATION, tenantId, nowMs), limitNanoUsd: undefined },
    ];
    if (apiKeyId !== '' && spendCapNanoUsd !== undefined) {
      needs.unshift({ view: this.#view(BudgetKind.API_KEY, `key ${apiKeyId}`, nowMs), limitNanoUsd: spendCapNanoUsd });
    }
    return needs;
  }

  #view(kind: BudgetKind, id: string, nowMs: number): BudgetView {
    let view = this.#views.get(id);
    if (view === undefined) {
      view = newView(kind);
      this.#views.set(id, view);
    }
    view.usedMs = nowMs;
    return view;
  }

  /** Holds in memory only, if every budget is covered there. What will soon be needed is requested in the background. */
  #holdHere(caller: BudgetCaller, needs: readonly Need[], costMax: bigint | null, nowMs: number): Hold {
    if (costMax === null) return holdOfUnpriced(needs);
    const slices = this.#enterSlices(needs, costMax, nowMs);
    const ahead = needs.filter(({ view }) => shouldAskAhead(view, nowMs));
    if (ahead.length > 0) void this.#askAhead(caller, ahead, costMax);
    return slices.length === 0 ? freeHold : this.#newHold({ slices, central: [], allowed: null }, costMax);
  }

  #enterSlices(needs: readonly Need[], cost: bigint, nowMs: number): HeldLease[] {
    const slices: HeldLease[] = [];
    for (const { view } of needs) {
      if (view.unlimited !== null) continue;
      enter(view.slice!, cost, nowMs);
      slices.push(view.slice!);
    }
    return slices;
  }

  async #holdByAsking(
    caller: BudgetCaller,
    needs: readonly Need[],
    costMax: bigint | null,
    costMin: bigint,
  ): Promise<Hold> {
    const cost = costMax ?? 0n;
    // Another call that asks about the same budget may bring what this one needs; after two such waits the call asks for itself.
    for (let waits = 0; waits < 2; waits++) {
      const nowMs = this.#now();
      const lacking = needs.filter((need) => !isCovered(need, cost, nowMs));
      const asking = lacking.find(({ view }) => view.asking !== null)?.view.asking;
      if (asking == null) break;
      const failure = await asking;
      if (failure !== undefined && !this.#mayGoOn(failure, lacking)) throw failure;
    }
    const nowMs = this.#now();
    const lacking = needs.filter((need) => !isCovered(need, cost, nowMs));
    if (lacking.length === 0) return this.#holdHere(caller, needs, costMax, nowMs);

    // What is available here is taken before asking, so that nobody else takes it meanwhile.
    const covered = needs.filter((need) => !lacking.includes(need));
    const slices = this.#enterSlices(covered, cost, nowMs);
    const granted = await this.#ask(caller, lacking, cost, costMin).catch((error) => {
      for (const slice of slices) leave(slice, cost, 0n);
      throw error;
    });
    const hold = this.#newHold({ ...granted, slices: [...slices, ...granted.slices] }, cost);
    if (costMax !== null) return hold;
    await hold.settle(0n);
    return holdOfUnpriced(needs);
  }

  /** Asks Billing for room for a call that is waiting. */
  async #ask(caller: BudgetCaller, lacking: readonly Need[], cost: bigint, costMin: bigint): Promise<Granted> {
    const askedMs = this.#now();
    // Far from a limit one call asks on behalf of all; near it each call needs its own hold, and nobody waits for another.
    const announced = lacking.filter(({ view }) => view.asking === null && view.nearUntilMs <= askedMs);
    const done = announce(announced);
    let failure: unknown;
    try {
      await this.#giveBackSlices(lacking);
      const response = await this.#lease(caller, lacking, cost, { costMin, sliceOf: cost, askedMs });
      return this.#accept(response, lacking, cost, askedMs);
    } catch (error) {
      failure = error;
      if (this.#mayGoOn(error, lacking)) return { slices: [], central: [], allowed: null };
      throw error;
    } finally {
      done(failure);
    }
  }

  /** Asks before anybody has to wait: whether there is still no limit, and for the next slice while the current one lasts. */
  async #askAhead(caller: BudgetCaller, needs: readonly Need[], cost: bigint): Promise<void> {
    const askedMs = this.#now();
    const done = announce(needs);
    let failure: unknown;
    try {
      const response = await this.#lease(caller, needs, 0n, { costMin: 0n, sliceOf: cost, askedMs });
      const { slices, central } = this.#accept(response, needs, 0n, askedMs);
      // This question was on behalf of no call, so nothing is held for one.
      for (const slice of slices) leave(slice, 0n, 0n);
      for (const lease of central) {
        leave(lease, 0n, 0n);
        lease.closing = true;
      }
    } catch (error) {
      failure = error;
      this.#mayGoOn(error, needs);
    } finally {
      done(failure);
    }
  }

  /** Slices with too little room are given back before more is asked for. */
  async #giveBackSlices(lacking: readonly Need[]): Promise<void> {
    const slices = lacking.flatMap(({ view }) => view.slice ?? []);
    if (slices.length === 0) return;
    for (const slice of slices) slice.closing = true;
    for (const { view } of lacking) view.slice = null;
    await this.#settler.settle(slices);
  }

  async #lease(
    { tenantId, userId, apiKeyId, requestId = '' }: BudgetCaller,
    needs: readonly Need[],
    cost: bigint,
    { costMin, sliceOf, askedMs }: { costMin: bigint; sliceOf: bigint; askedMs: number },
  ): Promise<LeaseResponse> {
    const request = {
      holderId: this.#holderId,
      tenantId,
      userId,
      apiKeyId: needs.some(({ view }) => view.kind === BudgetKind.API_KEY) ? apiKeyId : '',
      costMaxNanoUsd: cost,
      costMinNanoUsd: costMin,
      demands: needs.map(({ view, limitNanoUsd }) => ({
        kind: view.kind,
        leaseId: uuidv7(),
        limitNanoUsd,
        sliceNanoUsd: view.nearUntilMs > askedMs ? 0n : sliceOf * view.sliceCalls,
      })),
      timeToLive: { seconds: BigInt(timeToLiveMs / 1000) },
    };
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#billing.lease(request, {
          // Billing logs a refusal as well.
          contextValues: callerContext({ ...serviceCaller('inference'), requestId }),
          // Not 0, which would be no deadline.
          timeoutMs: Math.max(1, Math.ceil(askedMs + rpcTimeoutMs - this.#now())),
        });
      } catch (error) {
        const isRefused = refusingKind(error) !== undefined;
        // The answer may have been lost: asking with the same ids returns the same leases. What is not asked for again is given back,
        // including what an earlier attempt may still be granted.
        const hasTime = this.#now() < askedMs + rpcTimeoutMs;
        if (!isRefused && hasTime && attempt < attemptsMax) continue;
        if (!isRefused || attempt > 1) this.#release(request.demands.map(({ leaseId }) => leaseId));
        throw outOfReachIfLate(error);
      }
    }
  }

  #release(leaseIds: readonly string[]): void {
    this.#unwanted.add(
      this.#holderId,
      leaseIds.map((leaseId) => ({ leaseId, fencingToken: 1n })),
    );
    this.#tellUnwanted();
  }

  /** Settlements fail when this does, which is logged. */
  #tellUnwanted(): void {
    this.#unwanted.tell().catch(() => {});
  }

  #accept(response: LeaseResponse, needs: readonly Need[], cost: bigint, askedMs: number): Granted {
    const granted: Granted = { slices: [], central: [], allowed: null };
    for (const [index, { view, limitNanoUsd }] of needs.entries()) {
      const lease = response.leases[index]!;
      if (lease.unlimited) {
        view.unlimited = { saidMs: askedMs, servesUntilMs: askedMs + unlimitedServesMs };
        continue;
      }
      view.unlimited = null;
      const held = heldLease(lease, askedMs);
      this.#settler.add(held);
      if (lease.central) {
        view.nearUntilMs = this.#now() + nearMs;
        view.sliceCalls = sliceCallsMin;
        granted.central.push(held);
        granted.allowed = response.costAllowedNanoUsd;
      } else {
        if (view.slice !== null) view.slice.closing = true;
        view.slice = held;
        view.limitNanoUsd = limitNanoUsd;
        if (view.sliceCalls < sliceCallsMax) view.sliceCalls *= 2n;
        enter(held, cost, askedMs);
        granted.slices.push(held);
      }
    }
    return granted;
  }

  /**
   * Records what a failure means. While Billing is out of reach, callers who had no limit a short while ago may go on; returns true for
   * them.
   */
  #mayGoOn(error: unknown, needs: readonly Need[]): boolean {
    const nowMs = this.#now();
    const refusing = refusingKind(error);
    if (refusing !== undefined) {
      const refused = needs.find(({ view }) => view.kind === refusing)?.view;
      if (refused !== undefined) {
        refused.unlimited = null;
        refused.nearUntilMs = nowMs + nearMs;
      }
      return false;
    }
    const known = needs.map(({ view }) => view.unlimited);
    if (!known.every((answer) => answer !== null && nowMs - answer.saidMs < unlimitedWithoutBillingMs)) return false;
    for (const answer of known) answer!.servesUntilMs = Math.max(answer!.servesUntilMs, nowMs + retryMs);
    return true;
  }

  #newHold({ slices, central, allowed }: Granted, cost: bigint): Hold {
    let settled = false;
    return {
      leaseIds: [...slices, ...central].map(({ id }) => id),
      costAllowedNanoUsd: allowed,
      settle: (costNanoUsd) => {
        if (settled) return undefined;
        settled = true;
        for (const slice of slices) leave(slice, cost, costNanoUsd);
        if (central.length === 0) return undefined;
        for (const lease of central) {
          leave(lease, lease.inFlightNanoUsd, costNanoUsd);
          lease.closing = true;
        }
        return this.#settler.settle(central);
      },
    };
  }

  /** Forgets budgets that nobody used for a while; they are asked about again. */
  #sweepViews(): void {
    if (this.#views.size < this.#sweepAt) return;
    const nowMs = this.#now();
    for (const [id, view] of this.#views) {
      const isIdle = view.asking === null && nowMs - view.usedMs > unlimitedWithoutBillingMs;
      // A slice that is still held is given back by the settler, which does not need the view.
      if (isIdle) this.#views.delete(id);
    }
    this.#sweepAt = Math.max(viewsBeforeSweep, this.#views.size * 2);
  }
}

/** Whether a call can be decided here: the budget is known to have no limit, or its slice has room. */
function isCovered({ view, limitNanoUsd }: Need, cost: bigint, nowMs: number): boolean {
  if (view.unlimited !== null) return nowMs < view.unlimited.servesUntilMs;
  // A changed cap takes effect at once: a slice leased under the old one is useless.
  return view.slice !== null && view.limitNanoUsd === limitNanoUsd && hasRoom(view.slice, cost, nowMs);
}

function shouldAskAhead(view: BudgetView, nowMs: number): boolean {
  if (view.asking !== null) return false;
  if (view.unlimited !== null) {
    const { saidMs, servesUntilMs } = view.unlimited;
    // While Billing is out of reach it is asked once per extension, not for each call.
    return nowMs - saidMs >= unlimitedFreshMs && servesUntilMs - nowMs <= unlimitedServesMs - unlimitedFreshMs;
  }
  const { usedNanoUsd, inFlightNanoUsd, roomNanoUsd } = view.slice!;
  return view.nearUntilMs <= nowMs && (usedNanoUsd + inFlightNanoUsd) * 2n > roomNanoUsd;
}

/**
 * Tells other calls that an answer about these budgets is on its way. Call the returned function once it has come, or with the failure.
 * The others hear of that only when Billing is out of reach: any other failure is about this call alone.
 */
function announce(needs: readonly Need[]): (failure?: unknown) => void {
  const asking = Promise.withResolvers<unknown>();
  for (const { view } of needs) view.asking = asking.promise;
  return (failure) => {
    for (const { view } of needs) view.asking = null;
    asking.resolve(hasReason(failure, ErrorReason.OVERLOADED) ? failure : undefined);
  };
}

/** A model without a price cannot be held for, so only callers without any limit may use it. */
function holdOfUnpriced(needs: readonly Need[]): Hold {
  if (needs.every(({ view }) => view.unlimited !== null)) return freeHold;
  throw gatewayError(
    ErrorReason.MODEL_NOT_ALLOWED,
    'This model has no price yet, so it cannot be used where spend is limited: by a spend cap, a personal limit, or the credit of the organization.',
    { param: 'model' },
  );
}
