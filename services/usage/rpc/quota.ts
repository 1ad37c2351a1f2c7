import { durationFromMs } from '@bufbuild/protobuf/wkt';
import type { QuotaDemand, RateLimits } from '#gen/modelgateway/usage/v1/rate_limit_pb.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { invalidRequest } from '#shared/errors.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import {
  type HeldShare,
  heldShares,
  keepShares,
  reportReplica,
  shareLifetimeMs,
  sharesOfOthers,
} from '../db/rate-limit-shares.ts';
import type { UsageDeps, UsageRpc } from '../deps.ts';
import {
  demandOf,
  effectiveLimits,
  filled,
  type OtherShares,
  shareOf,
  unreportedShare,
} from '../domain/rate-limit-share.ts';

/** What a subject's demand is reckoned over when the replica reports it for the first time: about a report's interval. */
const firstIntervalMs = 1_000;

export const quota =
  ({ database }: Pick<UsageDeps, 'database'>): UsageRpc<'quota'> =>
  async ({ replicaId, demands }, context) => {
    requireService(callerOf(context));
    const subjectIds = demands.map(({ subject }) => subject!.id.toLowerCase());
    if (new Set(subjectIds).size < subjectIds.length) throw invalidRequest('demands', 'A subject was reported twice.');
    const { replicas, shares } = await sqlTransaction(database, async (client) => {
      const replicas = await reportReplica(client, replicaId);
      const held = await heldShares(client, replicaId, subjectIds);
      const others = await sharesOfOthers(client, replicaId, subjectIds);
      const shares = demands.map((demand, at) => {
        const subjectId = subjectIds[at]!;
        return { subjectId, ...nextShare(demand, held.get(subjectId), others.get(subjectId), replicas) };
      });
      await keepShares(client, replicaId, shares);
      return { replicas, shares };
    });
    return {
      replicas,
      shareLifetime: durationFromMs(shareLifetimeMs),
      unreportedFraction: unreportedShare(replicas),
      shares: demands.map(({ subject, limits }, at) => {
        const { share } = shares[at]!;
        return { subject, share: partOf(limits!, share), fraction: share };
      }),
    };
  };

const nobody: OtherShares = { demand: 0, share: 0, count: 0 };

function nextShare(
  { requests, tokens, concurrentRequests, limits: asked }: QuotaDemand,
  held: HeldShare | undefined,
  others: OtherShares = nobody,
  replicas: number,
): Omit<HeldShare, 'subjectId' | 'elapsedMs'> {
  const limits = effectiveLimits(asked);
  const elapsedMs = held?.elapsedMs ?? firstIntervalMs;
  // Half of the last demand stays, so that one quiet interval does not give a share away.
  const demand = Math.max(demandOf({ requests, tokens: Number(tokens) }, limits, elapsedMs), (held?.demand ?? 0) / 2);
  const share = shareOf(demand, others, replicas, held === undefined);
  return {
    demand,
    share,
    requestsFill: filled(held?.requestsFill ?? 0, requests, limits.requestsPerMinute * share, elapsedMs),
    tokensFill: filled(held?.tokensFill ?? 0, Number(tokens), limits.tokensPerMinute * share, elapsedMs),
    concurrentRequests,
  };
}

/** Rounded down, so that the parts never exceed the whole. A replica always lets one request through at a time. */
function partOf(asked: RateLimits, share: number) {
  const limits = effectiveLimits(asked);
  return {
    requestsPerMinute: Math.floor(limits.requestsPerMinute * share),
    tokensPerMinute: Math.floor(limits.tokensPerMinute * share),
    concurrentRequests: Math.floor(limits.concurrentRequests * share),
  };
}
