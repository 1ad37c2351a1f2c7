import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { Client } from '@connectrpc/connect';
import type { KeyUseSchema } from '#gen/modelgateway/keys/v1/feed_pb.ts';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { uuidv7 } from '#shared/ids.ts';
import { type FailureLogger, RepeatedFailures } from '#shared/repeated-failures.ts';
import { asService } from '#shared/rpc/caller.ts';
import type { CachedKey } from './key-cache.ts';

const usesMax = 10_000;
const timeoutMs = 5_000;

type Batch = { batchId: string; uses: MessageInitShape<typeof KeyUseSchema>[] };

/** Counts uses of keys in memory and reports the sums at intervals, so that no request writes. */
export class KeyUses {
  readonly #keys: Pick<Client<typeof KeysService>, 'recordKeyUse'>;
  readonly #failures: RepeatedFailures;
  #used: CachedKey[] = [];
  /** Sent, but not known to have arrived. Sent again unchanged, so that Keys can recognise a repeat. */
  #unconfirmed: Batch | null = null;
  #reporting: Promise<void> | null = null;

  constructor(keys: Pick<Client<typeof KeysService>, 'recordKeyUse'>, logger: FailureLogger) {
    this.#keys = keys;
    this.#failures = new RepeatedFailures('reporting the uses of API keys', logger);
  }

  count(entry: CachedKey, nowMs: number): void {
    if (entry.uses === 0) this.#used.push(entry);
    entry.uses += 1;
    entry.lastUsedMs = nowMs;
  }

  /** Reports what was counted so far. Never rejects: what does not arrive is sent again with the next report. */
  report(): Promise<void> {
    this.#reporting ??= this.#reportAll().finally(() => {
      this.#reporting = null;
    });
    return this.#reporting;
  }

  /** Reports the last uses. */
  async close(): Promise<void> {
    // A report on its way does not include them.
    await this.#reporting;
    await this.report();
    this.#failures.ended('failed to the end; the last ones are not recorded');
  }

  async #reportAll(): Promise<void> {
    // Uses counted meanwhile wait for the next report: on a busy edge this one would never end.
    let left = (this.#unconfirmed === null ? 0 : 1) + Math.ceil(this.#used.length / usesMax);
    try {
      for (; left > 0; left -= 1) {
        const batch = this.#nextBatch();
        this.#unconfirmed = batch;
        await this.#keys.recordKeyUse(batch, { ...asService('edge'), timeoutMs });
        this.#unconfirmed = null;
        this.#failures.succeeded();
      }
    } catch (err) {
      this.#failures.failed(err, 'failed; they will be sent again');
    }
  }

  #nextBatch(): Batch {
    if (this.#unconfirmed !== null) return this.#unconfirmed;
    const entries = this.#used.splice(0, usesMax);
    return { batchId: uuidv7(), uses: sumByKey(entries) };
  }
}

/** One sum per key, since a key may have several secrets; resets the entries' counts. */
function sumByKey(entries: readonly CachedKey[]): Batch['uses'] {
  const sums = new Map<string, { tenantId: string; keyId: string; count: number; lastUsedMs: number }>();
  for (const entry of entries) {
    const { tenantId, keyId } = entry.principal;
    const sum = sums.get(keyId) ?? { tenantId, keyId, count: 0, lastUsedMs: 0 };
    sum.count += entry.uses;
    sum.lastUsedMs = Math.max(sum.lastUsedMs, entry.lastUsedMs);
    sums.set(keyId, sum);
    entry.uses = 0;
  }
  return [...sums.values()].map(({ count, lastUsedMs, ...key }) => ({
    ...key,
    count: BigInt(count),
    lastUsedAt: timestampFromMs(lastUsedMs),
  }));
}
