import { setImmediate as nextTurn } from 'node:timers/promises';
import { durationMs } from '@bufbuild/protobuf/wkt';
import pLimit from 'p-limit';
import type { LeaseRequest } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { databaseError, isLockTimeout, isUniqueViolation } from '#shared/db/errors.ts';
import type { Sql } from '#shared/db/sql.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { ErrorReason, hasReason } from '#shared/errors.ts';
import type { BillingDeps } from '../deps.ts';
import { giveDueCreditTo, isCreditDue } from '../ledger/monthly-credit.ts';
import { readTermsOf, type Terms } from './budget.ts';
import { limitedDemands, type Taken, takeRoom } from './take-room.ts';

/** How long a lease holds without being settled, unless the request says otherwise. */
const timeToLiveMsDefault = 30_000;
/** The most concurrent transactions, so that one waiting for a lock delays only the requests it contains. */
const runningMax = 4;
/** The most requests in one transaction. */
const batchMax = 64;
/** How long the requests of a transaction wait for a lock together, in milliseconds. */
const waitTogetherMs = 500;
/** How long all who wait apart wait for their locks, one organization after another, and the least time for one; in milliseconds. */
const roundMs = 1_000;
const waitApartMsMin = 10;
/** How long a request waits for a lock in all, in milliseconds: its caller gives up then. */
const waitMsMax = 3_000;
/** The most transactions, besides, that wait apart. */
const apartMax = 2;

type Answer = { taken: Taken; terms: Terms; nowMs: number };
type Waiting = {
  request: LeaseRequest;
  /** When it came, on the monotonic clock. */
  sinceMs: number;
  resolve(answer: Answer): void;
  reject(error: unknown): void;
};
type Deps = Pick<BillingDeps, 'database' | 'databaseNow'>;

export type RoomBatches = {
  /** Takes room for a request in all budgets that have limits, or in none. */
  take(request: LeaseRequest): Promise<Answer>;
};

/**
 * Takes room for several requests together: those that come in the same turn, or while transactions are running, share the next one. A
 * crowd of keys used for the first time costs ten statements for many, not ten for each. Those that meet a busy account wait apart from
 * the others, the requests of each organization for themselves: however many accounts stay busy, each has its turn every second or so.
 */
export function createRoomBatches(deps: Deps): RoomBatches {
  const waiting: Waiting[] = [];
  /** Those that wait apart, by organization. */
  const apart = new Map<string, Waiting[]>();
  const apartTurns = pLimit(apartMax);
  let running = 0;

  async function run(): Promise<void> {
    running += 1;
    await nextTurn();
    for (let batch = nextBatch(); batch.length > 0; batch = nextBatch()) await answer(batch, waitTogetherMs);
    running -= 1;
  }

  /** Those whose account is known to be busy wait apart at once. */
  function nextBatch(): Waiting[] {
    const batch: Waiting[] = [];
    while (waiting.length > 0 && batch.length < batchMax) {
      const one = waiting.shift()!;
      (apart.get(tenantOf(one)) ?? batch).push(one);
    }
    return batch;
  }

  /** If the batch fails, each request is tried alone, so that a failure affects only the one that causes it. */
  async function answer(batch: readonly Waiting[], lockTimeoutMs: number): Promise<void> {
    try {
      const requests = batch.map(({ request }) => request);
      const answers = await takeForAll(deps, requests, { lock_timeout: lockTimeoutMs });
      for (const [index, { resolve }] of batch.entries()) resolve(answers[index]!);
    } catch (error) {
      if (isLockTimeout(error)) {
        for (const one of batch) {
          if (performance.now() - one.sinceMs < waitMsMax) waitApart(one);
          else one.reject(error);
        }
        return;
      }
      // The lease was given up while it was being written: asking again will show that.
      const isGivenUp = isUniqueViolation(error, 'leases_by_id');
      const isFinal = batch.length === 1 ? !isGivenUp : hasReason(databaseError(error), ErrorReason.OVERLOADED);
      if (isFinal) for (const { reject } of batch) reject(error);
      else for (const one of batch) await answer([one], lockTimeoutMs);
    }
  }

  function waitApart(one: Waiting): void {
    const tenantId = tenantOf(one);
    const line = apart.get(tenantId);
    if (line !== undefined) {
      line.push(one);
      return;
    }
    const own = [one];
    apart.set(tenantId, own);
    void takeTurns(tenantId, own);
  }

  /** Those for whom a turn was too short are in the line again. */
  async function takeTurns(tenantId: string, own: Waiting[]): Promise<void> {
    while (own.length > 0) {
      await apartTurns(() =>
        answer(own.splice(0, batchMax), Math.max(waitApartMsMin, Math.floor(roundMs / apart.size))),
      );
    }
    apart.delete(tenantId);
  }

  return {
    take: (request) =>
      new Promise((resolve, reject) => {
        waiting.push({ request, sinceMs: performance.now(), resolve, reject });
        if (running < runningMax) void run();
      }),
  };
}

const tenantOf = ({ request }: Waiting): string => request.tenantId.toLowerCase();

/** `settings` hold in each transaction. */
async function takeForAll(
  { database, databaseNow }: Deps,
  requests: readonly LeaseRequest[],
  settings: Readonly<Record<string, number>>,
): Promise<Answer[]> {
  const terms = await readTermsOf(database.pool, requests);
  const askedMs = await databaseNow(database.pool);
  const demandsAt = (nowMs: number) => requests.map((request, index) => limitedDemands(request, terms[index]!, nowMs));
  const demands = demandsAt(askedMs);
  // Without a limit too: a call is paid from the credit of its own month, however late it is charged. Those with a limit get it with their room.
  const isDue = (index: number): boolean =>
    terms[index]!.monthlyCreditNanoUsd > 0n &&
    isCreditDue(terms[index]!, askedMs) &&
    !demands[index]!.some(({ budget }) => budget.kind === BudgetKind.ORGANIZATION);
  const due = new Set(requests.filter((_, index) => isDue(index)).map(({ tenantId }) => tenantId.toLowerCase()));
  if (due.size > 0) await giveDueCreditTo(database, [...due], askedMs, settings);
  const answers = terms.map((each): Answer => ({ taken: { granted: [] }, terms: each, nowMs: askedMs }));
  const limited = [...requests.keys()].filter((index) => demands[index]!.length > 0);
  if (limited.length === 0) return answers;
  const take = async (sql: Sql): Promise<Answer[]> => {
    const nowMs = await databaseNow(sql);
    const demandsNow = demandsAt(nowMs);
    const asking = limited.map((index) => {
      const request = requests[index]!;
      return { ...request, demands: demandsNow[index]!, timeToLiveMs: timeToLiveMs(request.timeToLive) };
    });
    const taken = await takeRoom(sql, asking, nowMs);
    for (const [place, index] of limited.entries()) {
      answers[index] = { taken: taken[place]!, terms: terms[index]!, nowMs };
    }
    return answers;
  };
  return sqlTransaction(database, take, { settings });
}

export const timeToLiveMs = (asked: LeaseRequest['timeToLive']): number =>
  asked === undefined ? timeToLiveMsDefault : durationMs(asked);
