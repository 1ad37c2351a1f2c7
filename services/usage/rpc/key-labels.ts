import type { KeyStatus } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { asService } from '#shared/rpc/caller.ts';
import { slicesOf } from '#shared/slices.ts';
import type { UsageDeps } from '../deps.ts';

/** The most keys that Keys describes at once. */
const keysPerLookUp = 1_000;
/** How long a report waits for names, in milliseconds: the report matters more. */
const waitMs = 1_000;

type KeyLabel = { name: string; deleted: boolean; status: KeyStatus; preview: string; userId: string };

/** What reports call keys, by their ids. */
export type KeyLabels = ReadonlyMap<string, KeyLabel>;

/** The labels of an organization's keys, deleted ones included. Keys that Keys does not know, or not in time, are missing. */
export async function keyLabels(
  keys: UsageDeps['keys'],
  tenantId: string,
  keyIds: Iterable<string>,
): Promise<KeyLabels> {
  const labels = new Map<string, KeyLabel>();
  // Calls without a key were made by sessions.
  const ids = [...new Set(keyIds)].filter((id) => id !== '');
  const signal = AbortSignal.timeout(waitMs);
  try {
    for (const some of slicesOf(ids, keysPerLookUp)) {
      const asked = { tenantId, keyIds: some };
      // As a service: the caller's right to see this usage was checked, and people may not look up others' keys.
      const { keys: described } = await keys.describeKeys(asked, { ...asService('usage'), signal });
      for (const { keyId, name, deleted, status, keyPreview: preview, userId } of described) {
        labels.set(keyId, { name, deleted, status, preview, userId });
      }
    }
  } catch {
    // Keys is out of reach: the report comes without names.
  }
  return labels;
}
