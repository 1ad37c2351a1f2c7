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

type Sum = { tenantId: string; keyId: string; count: number; lastUsedMs: number };

type Batch = { batchId: string; uses: MessageInitShape<typeof KeyUseSchema>[] };

/** Counts uses of keys in memory and reports the sums at intervals, so that no request writes. */
export class KeyUses {
  readonly #keys: Pick<Client<typeof KeysService>, 'recordKeyUse'>;
  readonly #failures: RepeatedFailures;
  /** Since the last call of `report`. */
  #used: CachedKey[] = [];
  /**
   * What is in no batch yet, by key: while the feed is silent each request brings an entry of its own, and none is held for as long as Keys
   * records nothing.
   */
  readonly #sums = new Map<string, Sum>();
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
    this.#sumUp();
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
    let left = (this.#unconfirmed === null ? 0 : 1) + Math.ceil(this.#sums.size / usesMax);
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
    const sums = [...this.#sums.values().take(usesMax)];
    for (const { keyId } of sums) this.#sums.delete(keyId);
    return { batchId: uuidv7(), uses: sums.map(useMessage) };
  }

  /** One sum per key, since a key may have several secrets; resets the entries' counts. */
  #sumUp(): void {
    for (const entry of this.#used) {
      const { tenantId, keyId } = entry.principal;
      const sum = this.#sums.get(keyId) ?? { tenantId, keyId, count: 0, lastUsedMs: 0 };
      sum.count += entry.uses;
      sum.lastUsedMs = Math.max(sum.lastUsedMs, entry.lastUsedMs);
      this.#sums.set(keyId, sum);
      entry.uses = 0;
    }
    this.#used = [];
  }
}

const useMessage = ({ count, lastUsedMs, ...key }: Sum): Batch['uses'][number] => ({
  ...key,
  count: BigInt(count),
  lastUsedAt: timestampFromMs(lastUsedMs),
});
