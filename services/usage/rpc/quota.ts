import { durationFromMs } from '@bufbuild/protobuf/wkt';
import { takeAdvisoryLock } from '#shared/db/advisory-lock.ts';
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
import { emptyBuckets, grantDemand } from '../domain/rate-limit-bucket.ts';

export const quota =
  ({ database }: Pick<UsageDeps, 'database'>): UsageRpc<'quota'> =>
  async ({ replicaId, demands }, context) => {
    requireService(callerOf(context));
    const subjectIds = demands.map(({ subject }) => subject!.id.toLowerCase());
    if (new Set(subjectIds).size < subjectIds.length) throw invalidRequest('demands', 'A subject was reported twice.');
    const shareLifetime = durationFromMs(replicaLifetimeMs);
    // What a replica says once a second that is alone, or idle.
    if (demands.length === 0) return { replicas: await reportReplica(database, replicaId), shares: [], shareLifetime };
    return sqlTransaction(database, async (client) => {
      // One at a time: nobody's buckets are granted from twice.
      await takeAdvisoryLock(client, 'reports of rate limits');
      // Who gave up waiting reports the same again.
      context.signal.throwIfAborted();
      const replicas = await reportReplica(client, replicaId);
      const buckets = await readBuckets(client, subjectIds);
      const others = await concurrentOfOthers(client, replicaId, subjectIds);
      const grants = demands.map((demand, at) => {
        const subjectId = subjectIds[at]!;
        const levels = buckets.get(subjectId) ?? emptyBuckets;
        return { subjectId, ...grantDemand(demand, levels, others.get(subjectId) ?? [], replicas) };
      });
      await keepGrants(
        client,
        replicaId,
        grants.map(({ subjectId, levels, concurrent }) => ({ subjectId, ...levels, concurrent })),
      );
      return { replicas, shares: grants.map(({ share }) => share), shareLifetime };
    });
  };
