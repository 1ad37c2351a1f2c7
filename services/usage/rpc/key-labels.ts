import { asService } from '#shared/rpc/caller.ts';
import type { UsageDeps } from '../deps.ts';

/** The most keys that Keys describes at once. */
const keysPerLookUp = 1_000;
/** For how long a report waits for names, in milliseconds: it is worth more than they are. */
const waitMs = 1_000;

/** What keys are called, by their ids. */
export type KeyLabels = ReadonlyMap<string, { name: string; deleted: boolean }>;

/** Of an organization's keys, deleted ones included. Those are missing which Keys does not know, or not in time. */
export async function keyLabels(
  keys: UsageDeps['keys'],
  tenantId: string,
  keyIds: Iterable<string>,
): Promise<KeyLabels> {
  const labels = new Map<string, { name: string; deleted: boolean }>();
  // Those without a key are calls of sessions.
  const ids = [...new Set(keyIds)].filter((id) => id !== '');
  const signal = AbortSignal.timeout(waitMs);
  try {
    for (let at = 0; at < ids.length; at += keysPerLookUp) {
      const asked = { tenantId, keyIds: ids.slice(at, at + keysPerLookUp) };
      // As a service: the caller's right to see this usage was checked, and people may not look up keys of others.
      const { keys: described } = await keys.describeKeys(asked, { ...asService('usage'), signal });
      for (const { keyId, name, deleted } of described) labels.set(keyId, { name, deleted });
    }
  } catch {
    // Keys is out of reach: the report comes without their names.
  }
  return labels;
}
