import type { JobHold } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { JobsDeps } from '../deps.ts';
import { releaseHold } from './holds.ts';

/**
 * Gives back the room of an ended job and records that, by a null `hold_expires_at`. False when Billing or the database could not be told:
 * then the housekeeping does it, since the room would lapse only after more than an hour. Never rejects.
 */
export async function returnHold(
  { database, billing }: Pick<JobsDeps, 'database' | 'billing'>,
  { tenantId, id }: { tenantId: string; id: string },
  hold: JobHold,
): Promise<boolean> {
  if (hold.leases.length === 0) return true;
  if (!(await releaseHold(billing, hold))) return false;
  const returned = {
    name: 'jobs-return-hold',
    text: 'update jobs set hold_expires_at = null where tenant_id = $1 and id = $2 and ended_at is not null',
    values: [tenantId, id],
  };
  return database.query(returned).then(
    () => true,
    () => false,
  );
}
