import type { Clock } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { removeInBatches } from '#shared/db/remove-in-batches.ts';
import { forgetExpired } from '#shared/idempotency.ts';
import type { Logger } from '#shared/logger.ts';
import { type RecurringWork, startRecurringWork } from '#shared/recurring-work.ts';

type HousekeepingDeps = { database: Pick<ServiceDatabase, 'query' | 'pool'>; clock: Clock; logger: Logger };

const everyMs = 60_000;

/**
 * How long a secret is remembered after its grace period, so that its holder is told that it has expired, in milliseconds; after that
 * nobody has such a secret.
 */
const overForMs = 24 * 3_600_000;
/** As many as a statement deletes in a few milliseconds. */
const removedAtOnce = 1_000;

/** Deletes what is no longer needed, however much there is, until `signal` aborts. */
export async function removeOutdated(
  { database, clock }: Pick<HousekeepingDeps, 'database' | 'clock'>,
  signal?: AbortSignal,
): Promise<void> {
  // From then on nobody can derive the secrets made under these keys again.
  while (!signal?.aborted && (await forgetExpired(database.pool, clock.now())));
  await removeSecretsThatAreOver(database, clock.now(), signal);
  // An edge that was away for longer starts with an empty cache. The last change is kept: it tells an edge that knows it that nothing was
  // missed.
  await database.query({
    text: `delete from changes where changed_at < now() - interval '10 minutes' and version < (select version from feed)`,
    values: [],
  });
  await database.query({
    text: `delete from keepers where (seen_at < clock_timestamp() - interval '1 hour' or seen_at = 'infinity')
      and not exists (select from watchers where watchers.keeper_id = keepers.keeper_id)`,
    values: [],
  });
  // An edge repeats a batch for as long as it lives; one that could not report for a day counts some uses twice.
  await database.query({
    text: `delete from use_batches where recorded_at < now() - interval '1 day'`,
    values: [],
  });
}

/** The edges need not be told: they refuse these secrets by their expiry. */
async function removeSecretsThatAreOver(
  database: Pick<ServiceDatabase, 'query'>,
  nowMs: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  const over = {
    text: `delete from digests where (tenant_id, digest) in (
      select tenant_id, digest from digests where expires_at <= $1 order by expires_at
      limit ${removedAtOnce} for update skip locked)`,
    values: [new Date(nowMs - overForMs)],
  };
  await removeInBatches(database, over, signal);
}

/** Runs the housekeeping every minute; several processes doing so do no harm. */
export const startHousekeeping = (deps: HousekeepingDeps): RecurringWork =>
  startRecurringWork({
    name: 'the housekeeping of Keys',
    everyMs,
    round: (signal) => removeOutdated(deps, signal),
    logger: deps.logger,
  });
