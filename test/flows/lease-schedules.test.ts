import { expect, test } from 'vitest';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { ErrorReason, GatewayError, gatewayError, hasReason } from '#shared/errors.ts';
import { lateMs } from '../../services/billing/leasing/lapse.ts';
import { Budgets, type BudgetsDeps } from '../../services/models/limits/budgets.ts';
import { timeToLiveMs } from '../../services/models/limits/lease-settler.ts';
import { SeededRandom, VirtualTime } from '../support/leases/schedule.ts';
import { SimulatedBilling } from '../support/leases/simulated-billing.ts';
import { silentLogger } from '../support/silent-logger.ts';

/** The full size, 10,000, is `LEASE_SCHEDULES=10000`; this many run before every merge. */
const schedules = Number(process.env.LEASE_SCHEDULES ?? 400);
/** Set this to a seed to replay that schedule alone. */
const onlySeed = process.env.LEASE_SEED;

test(`${schedules} random schedules of leases and holds break no cap, lose no money and leak no hold`, async () => {
  const [first, last] = onlySeed === undefined ? [1, schedules] : [Number(onlySeed), Number(onlySeed)];
  for (let seed = first; seed <= last; seed++) {
    await runSchedule(seed).catch((error: Error) => {
      throw new Error(`replay with LEASE_SEED=${seed}: ${error.message}`, { cause: error });
    });
  }
}, 600_000);

type Edge = {
  budgets: Budgets;
  isAlive: boolean /** Virtual milliseconds; until then nothing it says arrives anywhere. */;
  cutOffUntilMs: number;
};

/** Callers one after the other, each after the previous answer; all at once; all at once with faults; or beside an edge that is cut off. */
type Kind = 'sequential' | 'parallel' | 'faulty' | 'cut off';
const kinds: readonly Kind[] = ['sequential', 'parallel', 'faulty', 'faulty', 'cut off'];
/** From the answer to an edge's last settlement until Billing gives its room away. */
const lapseMs = timeToLiveMs + lateMs;

async function runSchedule(seed: number): Promise<void> {
  const kind = kinds[seed % kinds.length]!;
  const random = new SeededRandom(seed);
  const time = new VirtualTime();
  /** Some run so fast that slices are settled long after the limit was reached. */
  const isFast = random.chance(0.5);
  /** In some, each call costs exactly what was held for it, so that double spending cannot hide in what calls did not need. */
  const isExact = random.chance(0.5);
  /** In some, one edge takes everything while the others' slices lie idle. */
  const isLopsided = random.chance(0.5);
  const costMax = BigInt(random.between(50, 200));
  const limits = new Map<BudgetKind, bigint>([[BudgetKind.API_KEY, costMax * BigInt(random.between(0, 60))]]);
  if (random.chance(0.3)) limits.set(BudgetKind.USER, costMax * BigInt(random.between(1, 60)));
  if (random.chance(0.3)) limits.set(BudgetKind.ORGANIZATION, costMax * BigInt(random.between(1, 60)));

  /** What is really spent, whatever anyone believes. */
  let spent = 0n;
  const billing = new SimulatedBilling(limits, time, (budget) => {
    if (kind !== 'sequential' || spent >= limits.get(budget)!) return;
    throw new Error(`refused early: ${spent} spent of ${limits.get(budget)} and nothing running`);
  });
  const edges = Array.from({ length: random.between(1, 4) }, () =>
    startEdge(billing, time, random, {
      delayMsMax: isFast ? 2 : kind === 'sequential' ? 60 : random.between(60, 900),
      withFaults: kind === 'faulty',
    }),
  );
  for (const edge of edges) void tick(edge, time);

  const work = new Workload();
  const calls = random.between(5, 150);
  if (kind === 'sequential') {
    work.add(
      (async () => {
        for (let call = 0; call < calls; call++) await oneCall(call);
      })(),
    );
  } else {
    const withinMs = kind === 'cut off' ? random.between(20_000, lapseMs) : 4_000;
    for (let call = 0; call < calls; call++)
      work.add(time.sleep(random.between(0, withinMs)).then(() => oneCall(call)));
  }
  if (kind === 'faulty' && random.chance(0.4)) {
    const edge = edges[random.between(0, edges.length - 1)]!;
    work.add(
      time.sleep(random.between(500, 4_000)).then(() => {
        edge.isAlive = false;
      }),
    );
  }

  if (kind === 'cut off') {
    const edge = edges[random.between(0, edges.length - 1)]!;
    work.add(
      time.sleep(random.between(0, 20_000)).then(() => {
        edge.cutOffUntilMs = time.now() + random.between(1_000, lapseMs - 5_000);
      }),
    );
  }

  async function oneCall(call: number): Promise<void> {
    const edge = edges[isLopsided && call > edges.length * 2 ? 0 : random.between(0, edges.length - 1)]!;
    if (!edge.isAlive) return;
    const caller = { tenantId: 'tenant', userId: 'user', apiKeyId: 'key' };
    const hold = await admitted(edge, caller);
    if (hold === null) return;
    await time.sleep(random.between(1, isFast ? 3 : kind === 'sequential' ? 200 : 3_000));
    const least = isExact ? costMax : random.chance(0.2) ? 0n : costMax / 2n;
    const cost = BigInt(random.between(Number(least), Number(costMax)));
    spent += cost;
    // A vanished edge settles nothing; the next process replays its journal within 5 s.
    const replayMs = edge.isAlive ? 0 : random.between(100, 5_000);
    if (edge.isAlive) await hold.settle(cost);
    const cutOffMs = Math.max(0, edge.cutOffUntilMs - time.now());
    const charging = time.sleep(cutOffMs + replayMs + random.between(20, 2_000)).then(() => {
      billing.charge(`event ${call}`, hold.leaseIds, cost);
      if (random.chance(0.2)) billing.charge(`event ${call}`, hold.leaseIds, cost);
    });
    work.add(charging);
  }

  async function admitted(edge: Edge, caller: { tenantId: string; userId: string; apiKeyId: string }) {
    try {
      return await edge.budgets.hold(caller, { spendCapNanoUsd: limits.get(BudgetKind.API_KEY)! }, costMax);
    } catch (error) {
      if (isRefusal(error) || (kind !== 'sequential' && isOverloaded(error))) return null;
      throw error;
    }
  }

  await work.done(time);
  for (const { cutOffUntilMs } of edges) work.add(time.sleep(Math.max(0, cutOffUntilMs - time.now())));
  await work.done(time);
  // The remaining edges give everything back; what vanished edges and lost answers held lapses.
  for (const edge of edges) {
    if (edge.isAlive) work.add(edge.budgets.close());
  }
  // What is lost on the network is sent again with the next ticks.
  work.add(time.sleep(10_000));
  await work.done(time);
  for (const edge of edges) {
    if (edge.isAlive) expect(edge.budgets.leaseCount, 'nothing is kept for calls that are over').toBe(0);
    edge.isAlive = false;
  }
  work.add(time.sleep(lapseMs + 5_000));
  await work.done(time);
  billing.tidy();

  for (const [budgetKind, { postedNanoUsd, heldNanoUsd }] of billing.budgets) {
    expect(postedNanoUsd, 'every call is posted, once').toBe(spent);
    expect(heldNanoUsd, 'nothing stays held').toBe(0n);
    const limit = limits.get(budgetKind)!;
    const most = limit === 0n ? 0n : limit - 1n + costMax;
    if (postedNanoUsd > most) throw new Error(`${postedNanoUsd} spent of ${limit} by calls of at most ${costMax}`);
  }
}

/** Work in progress; its first failure ends it. */
class Workload {
  #open = 0;
  #failure: unknown;

  add(work: Promise<unknown>): void {
    this.#open += 1;
    work
      .catch((error) => {
        this.#failure ??= error;
      })
      .finally(() => {
        this.#open -= 1;
      });
  }

  async done(time: VirtualTime): Promise<void> {
    await time.runUntil(() => this.#open === 0 || this.#failure !== undefined);
    if (this.#failure !== undefined) throw this.#failure;
  }
}

async function tick(edge: Edge, time: VirtualTime): Promise<void> {
  while (edge.isAlive) {
    await time.sleep(500);
    if (edge.isAlive) await edge.budgets.tick();
  }
}

const refusals: readonly ErrorReason[] = [
  ErrorReason.SPEND_CAP_EXCEEDED,
  ErrorReason.COST_LIMIT_EXCEEDED,
  ErrorReason.PAYG_CAP_EXCEEDED,
];
const isRefusal = (error: unknown): boolean => error instanceof GatewayError && refusals.includes(error.reason);
const isOverloaded = (error: unknown): boolean => hasReason(error, ErrorReason.OVERLOADED);

/**
 * An edge whose calls to Billing take time. With faults, or while it is cut off, they get lost on the way there or back. With faults some
 * also arrive when nobody waits for their answer any more, and some arrive twice.
 */
function startEdge(
  billing: SimulatedBilling,
  time: VirtualTime,
  random: SeededRandom,
  { delayMsMax, withFaults }: { delayMsMax: number; withFaults: boolean },
): Edge {
  const edge: Edge = { budgets: undefined as never, isAlive: true, cutOffUntilMs: 0 };
  const isLost = () => time.now() < edge.cutOffUntilMs || (withFaults && random.chance(0.04));
  const lost = () => gatewayError(ErrorReason.OVERLOADED, 'lost on the network');
  const overNetwork =
    <Request, Response>(call: (request: Request) => Promise<Response>) =>
    async (request: Request): Promise<Response> => {
      await time.sleep(random.between(0, delayMsMax));
      if (withFaults && random.chance(0.04))
        void time
          .sleep(random.between(0, 10_000))
          .then(() => call(request))
          .catch(() => {});
      if (isLost()) throw lost();
      const response = await call(request);
      await time.sleep(random.between(0, delayMsMax));
      if (isLost()) throw lost();
      return response;
    };
  edge.budgets = new Budgets({
    billing: {
      lease: overNetwork((request: Parameters<SimulatedBilling['lease']>[0]) => billing.lease(request)),
      settle: overNetwork((request: Parameters<SimulatedBilling['settle']>[0]) => billing.settle(request)),
      releaseHold: overNetwork((request: Parameters<SimulatedBilling['releaseHold']>[0]) =>
        billing.releaseHold(request),
      ),
    } as BudgetsDeps['billing'],
    clock: { monotonic: time.now },
    logger: silentLogger,
  });
  return edge;
}
