import type { KeyDigest } from '#gen/modelgateway/keys/v1/principal_pb.ts';
import { asBuffer } from '#shared/as-buffer.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { livePrincipalsOfDigests, type PrincipalRow, principalColumns } from '../db/principals.ts';

/** The owner of a secret with one of the digests, null when nobody has it; and the version at which that was read. */
type LookedUp = { row: PrincipalRow | null; version: bigint };

export type DigestLookUp = (digests: readonly KeyDigest[]) => Promise<LookedUp>;

/** The most concurrent queries; look-ups that arrive meanwhile wait and share the next one. */
const runningMax = 2;
/**
 * How long look-ups gather after a query has begun, in milliseconds: keys that nobody has cost at most 50 queries a second, however many
 * they are.
 */
const gatherMs = 20;
/** Digests in one query. */
const digestsMax = 1_000;
/** The most look-ups that may wait. Beyond them callers are told to come back: a flood must not fill the memory. */
const waitingMax = 20_000;

type Waiting = {
  digests: readonly KeyDigest[];
  resolve: (answer: LookedUp) => void;
  reject: (error: unknown) => void;
};

/**
 * Looks up digests, those of many callers in one query: calls that come soon after a query has begun share the next one. So a single call
 * does not wait, and a flood of invented keys, whose checksum anybody can compute, costs one query for many instead of one each. A query
 * begins after the calls that it answers, so no answer is older than its call.
 */
export function createDigestLookUp(database: Pick<ServiceDatabase, 'query'>): DigestLookUp {
  let waiting: Waiting[] = [];
  let running = 0;
  let isGathering = false;

  function startNext(): void {
    while (!isGathering && running < runningMax && waiting.length > 0) {
      let count = 0;
      let digestCount = 0;
      while (count < waiting.length && digestCount + waiting[count]!.digests.length <= digestsMax) {
        digestCount += waiting[count]!.digests.length;
        count += 1;
      }
      const batch = waiting.slice(0, count);
      waiting = waiting.slice(count);
      running += 1;
      // Enough for a query of its own, so these need not wait.
      if (waiting.length === 0) gather();
      answer(batch).finally(() => {
        running -= 1;
        startNext();
      });
    }
  }

  function gather(): void {
    isGathering = true;
    setTimeout(() => {
      isGathering = false;
      startNext();
    }, gatherMs);
  }

  async function answer(batch: readonly Waiting[]): Promise<void> {
    try {
      const { version, rows } = await queryPrincipals(
        database,
        batch.flatMap(({ digests }) => digests),
      );
      const byDigest = new Map(rows.map((row) => [identity(row.pepper_version, row.digest), row]));
      for (const { digests, resolve } of batch) {
        const found = digests.map(({ pepperVersion, digest }) => byDigest.get(identity(pepperVersion, digest)));
        resolve({ row: found.find((row) => row !== undefined) ?? null, version });
      }
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }

  return (digests) =>
    new Promise((resolve, reject) => {
      if (waiting.length >= waitingMax) {
        reject(
          gatewayError(ErrorReason.OVERLOADED, 'The gateway is overloaded. Try again shortly.', {
            internal: `${waiting.length} key look-ups are waiting`,
            retryAfterMs: 1_000,
          }),
        );
        return;
      }
      waiting.push({ digests, resolve, reject });
      // After the current callers, so that calls of one moment share even the first query.
      queueMicrotask(startNext);
    });
}

const identity = (pepperVersion: number, digest: Uint8Array): string =>
  `${pepperVersion}:${asBuffer(digest).toString('latin1')}`;

/** Version and rows in one statement, hence from the same moment. */
async function queryPrincipals(
  database: Pick<ServiceDatabase, 'query'>,
  digests: readonly KeyDigest[],
): Promise<{ version: bigint; rows: PrincipalRow[] }> {
  const { rows } = await database.query<PrincipalRow | { version: bigint; digest: null }>({
    name: 'keys-authenticate',
    text: `select feed.version, found.* from feed
      left join (select ${principalColumns} from ${livePrincipalsOfDigests}) as found on true`,
    values: [digests.map(({ digest }) => Buffer.from(digest))],
  });
  return {
    version: rows[0]!.version,
    rows: rows.filter((row): row is PrincipalRow => row.digest !== null),
  };
}
