import { durationFromMs } from '@bufbuild/protobuf/wkt';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { invalidRequest } from '#shared/errors.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import {
  concurrentOfOthers,
  keepGrants,
  readBuckets,
  replicaLifetimeMs,
  reportReplica,
} from '../db/rate-limit-buckets.ts';
import type { UsageDeps, UsageRpc } from '../deps.ts';
import { effectiveLimits, grantConcurrent, grantFrom, minuteMs } from '../domain/rate-limit-bucket.ts';

export const quota =
  ({ database }: Pick<UsageDeps, 'database'>): UsageRpc<'quota'> =>
  async ({ replicaId, demands }, context) => {
    requireService(callerOf(context));
    const subjectIds = demands.map(({ subject }) => subject!.id.toLowerCase());
    if (new Set(subjectIds).size < subjectIds.length) throw invalidRequest('demands', 'A subject was reported twice.');
    const { replicas, shares } = await sqlTransaction(database, async (client) => {
      const replicas = await reportReplica(client, replicaId);
      if (demands.length === 0) return { replicas, shares: [] };
      const buckets = await readBuckets(client, subjectIds);
      const others = await concurrentOfOthers(client, replicaId, subjectIds);
      const grants = demands.map((demand, at) => {
        const subjectId = subjectIds[at]!;
        const limits = effectiveLimits(demand.limits);
        const { requestsMs = 0, tokensMs = 0 } = buckets.get(subjectId) ?? {};
        const requests = grantFrom(requestsMs, limits.requestsPerMinute, {
          settled: Number(demand.requestsSettled),
          wanted: demand.requests,
        });
        const tokens = grantFrom(tokensMs, limits.tokensPerMinute, {
          settled: Number(demand.tokensSettled),
          wanted: Number(demand.tokens),
        });
        const { concurrentRequests: limit } = limits;
        const concurrent = grantConcurrent(demand.concurrentRequests, limit, others.get(subjectId) ?? [], replicas);
        return { subjectId, requests, tokens, concurrent };
      });
      await keepGrants(
        client,
        replicaId,
        grants.map(({ subjectId, requests, tokens, concurrent }) => ({
          subjectId,
          requestsMs: requests.levelMs,
          tokensMs: tokens.levelMs,
          concurrent,
        })),
      );
      const shares = grants.map(({ requests, tokens, concurrent }, at) => ({
        subject: demands[at]!.subject,
        requests: requests.granted,
        tokens: BigInt(tokens.granted),
        concurrentRequests: concurrent,
        requestsFill: requests.levelMs / minuteMs,
        tokensFill: tokens.levelMs / minuteMs,
      }));
      return { replicas, shares };
    });
    return { replicas, shares, shareLifetime: durationFromMs(replicaLifetimeMs) };
  };
