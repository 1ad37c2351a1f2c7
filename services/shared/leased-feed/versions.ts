import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { nextVersion } from '#shared/db/failover.ts';
import { notify } from '#shared/db/notify.ts';

/** The channel by which a service's transactions tell its feeds about changes. */
export const changedChannel = (service: string): string => `${service}_changed`;

/**
 * Assigns versions to `count` changes of a service, and tells its feeds once they are committed; returns the last one, directly after the
 * others. Call it at the end of the transaction: the lock on the feed's row, held until the commit, makes versions appear in order.
 */
export async function takeVersions(em: SqlEntityManager, service: string, count: number): Promise<bigint> {
  // Rows still in the unit of work must not wait for this lock.
  await em.flush();
  const [feed] = await em.execute<{ version: string }[]>(
    `update feed set version = ${nextVersion} + ? - 1 returning version`,
    [count],
  );
  await notify(em, changedChannel(service));
  return BigInt(feed!.version);
}

/** The version of a service's last change. */
export async function currentVersion(em: SqlEntityManager): Promise<bigint> {
  const [feed] = await em.execute<{ version: string }[]>('select version from feed');
  return BigInt(feed!.version);
}
