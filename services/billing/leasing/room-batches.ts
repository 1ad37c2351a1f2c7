import { setImmediate as nextTurn } from 'node:timers/promises';
import { durationMs } from '@bufbuild/protobuf/wkt';
import type { LeaseRequest } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { isUniqueViolation } from '#shared/db/errors.ts';
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

type Answer = { taken: Taken; terms: Terms; nowMs: number };
type Waiting = { request: LeaseRequest; resolve(answer: Answer): void; reject(error: unknown): void };
type Deps = Pick<BillingDeps, 'database' | 'databaseNow'>;

export type RoomBatches = {
  /** Takes room for a request in all budgets that have limits, or in none. */
  take(request: LeaseRequest): Promise<Answer>;
};

/**
 * Takes room for several requests together: those that come in the same turn, or while transactions are running, share the next one. A
 * crowd of keys used for the first time costs ten statements for many, not ten for each.
 */
export function createRoomBatches(deps: Deps): RoomBatches {
  const waiting: Waiting[] = [];
  let running = 0;

  async function run(): Promise<void> {
    running += 1;
    await nextTurn();
    while (waiting.length > 0) await answer(waiting.splice(0, batchMax));
    running -= 1;
  }

  /** If the batch fails, each request is tried alone, so that a failure affects only the one that causes it. */
  async function answer(batch: readonly Waiting[]): Promise<void> {
    try {
      const answers = await takeForAll(
        deps,
        batch.map(({ request }) => request),
      );
      for (const [index, { resolve }] of batch.entries()) resolve(answers[index]!);
    } catch (error) {
      // The lease was given up while it was being written: asking again will show that.
      const isGivenUp = isUniqueViolation(error, 'leases_by_id');
      const isFinal = batch.length === 1 ? !isGivenUp : hasReason(error, ErrorReason.OVERLOADED);
      if (isFinal) for (const { reject } of batch) reject(error);
      else for (const one of batch) await answer([one]);
    }
  }

  return {
    take: (request) =>
      new Promise((resolve, reject) => {
        waiting.push({ request, resolve, reject });
        if (running < runningMax) void run();
      }),
  };
}

async function takeForAll({ database, databaseNow }: Deps, requests: readonly LeaseRequest[]): Promise<Answer[]> {
  const terms = await readTermsOf(database.pool, requests);
  const askedMs = await databaseNow(database.pool);
  // Without limits too: a call is paid from the credit of its own month, however late it is charged.
  const isDue = (each: Terms): boolean => each.monthlyCreditNanoUsd > 0n && isCreditDue(each, askedMs);
  const due = new Set(
    requests.filter((_, index) => isDue(terms[index]!)).map(({ tenantId }) => tenantId.toLowerCase()),
  );
  if (due.size > 0) await giveDueCreditTo(database, [...due], askedMs);
  const limited = (nowMs: number) =>
    requests
      .map((request, index) => ({ request, index, demands: limitedDemands(request, terms[index]!, nowMs) }))
      .filter(({ demands }) => demands.length > 0);
  const answers = terms.map((each): Answer => ({ taken: { granted: [] }, terms: each, nowMs: askedMs }));
  if (limited(askedMs).length === 0) return answers;
  return sqlTransaction(database, async (sql) => {
    const nowMs = await databaseNow(sql);
    const asking = limited(nowMs);
    const taken = await takeRoom(
      sql,
      asking.map(({ request, demands }) => ({ ...request, demands, timeToLiveMs: timeToLiveMs(request.timeToLive) })),
      nowMs,
    );
    for (const [place, { index }] of asking.entries()) {
      answers[index] = { taken: taken[place]!, terms: terms[index]!, nowMs };
    }
    return answers;
  });
}

export const timeToLiveMs = (asked: LeaseRequest['timeToLive']): number =>
  asked === undefined ? timeToLiveMsDefault : durationMs(asked);
