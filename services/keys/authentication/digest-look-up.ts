import type { KeyDigest } from '#gen/modelgateway/keys/v1/principal_pb.ts';
import { asBuffer } from '#shared/as-buffer.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { livePrincipalsOfDigests, type PrincipalRow, principalColumns } from '../db/principals.ts';

/** Whose secret has one of the digests, and the version at which that was read; null when nobody's. */
type LookedUp = { row: PrincipalRow | null; version: bigint };

export type DigestLookUp = (digests: readonly KeyDigest[]) => Promise<LookedUp>;

/** Queries at a time; what arrives meanwhile waits and shares the next one. */
const runningMax = 2;
/** For how long look-ups gather after a query has begun, in milliseconds: so many keys that nobody has cost at most 50 queries a second. */
const gatherMs = 20;
/** Digests in one query. */
const digestsMax = 1_000;
/** Look-ups that may wait. Beyond them callers are told to come back: a flood must not fill the memory. */
const waitingMax = 20_000;

type Waiting = {
  digests: readonly KeyDigest[];
  resolve: (answer: LookedUp) => void;
  reject: (error: unknown) => void;
};

/**
 * Looks digests up, many callers by one query: whoever calls soon after a query has begun shares the next one. So a single call
 * waits for nothing, and a flood of invented keys, whose checksum anybody can make, costs a query for many and never one each.
 * A query begins after the calls which it answers, so that no answer is older than its call.
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
      // What fills a query of its own need not wait.
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
      // Once the callers of now are done, so that those of one moment share the first query too.
      queueMicrotask(startNext);
    });
}

const identity = (pepperVersion: number, digest: Uint8Array): string =>
  `${pepperVersion}:${asBuffer(digest).toString('latin1')}`;

/** Version and rows in one statement, hence of one moment. */
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
