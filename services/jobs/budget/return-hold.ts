import { fromBinary } from '@bufbuild/protobuf';
import { type JobHold, JobHoldSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ErrorReason, hasReason } from '#shared/errors.ts';
import type { JobsDeps } from '../deps.ts';
import { successEventId } from '../domain/success-event.ts';
import { releaseHold, voidCharge } from './holds.ts';

/** A job that ended without a result. */
type EndedJob = {
  tenantId: string;
  id: string;
  hold: JobHold;
  /** The event for its success, if a lost run may have had it; null: none had. */
  lostEventId: string | null;
};

/** The columns of a job that ended without a result. */
export const endedColumns = 'jobs.tenant_id, jobs.id, jobs.hold, jobs.was_lost, jobs.started_at';

export type EndedRow = { tenant_id: string; id: string; hold: Buffer; was_lost: boolean; started_at: Date | null };

export const endedJob = ({ tenant_id, id, hold, was_lost, started_at }: EndedRow): EndedJob => ({
  tenantId: tenant_id,
  id,
  hold: fromBinary(JobHoldSchema, hold),
  lostEventId: was_lost && started_at !== null ? successEventId(id, started_at.getTime()) : null,
});

/**
 * Gives back the room of an ended job, and what a lost run of it was charged, and records that, by a null `hold_expires_at`. False when
 * Billing or the database could not be told: then the housekeeping does it. Never rejects.
 *
 * Only after the job's end: until then another run may use the room, and earn the charge.
 */
export async function returnHold(
  { database, billing, logger }: Pick<JobsDeps, 'database' | 'billing' | 'logger'>,
  { tenantId, id, hold, lostEventId }: EndedJob,
): Promise<boolean> {
  if (hold.leases.length === 0 && lostEventId === null) return true;
  const telling =
    lostEventId === null
      ? releaseHold(billing, hold)
      : voidCharge(billing, { tenantId, id, hold, eventId: lostEventId }).then(
          () => true,
          (err) => {
            // That Billing is away is told by whatever waits for it.
            if (!hasReason(err, ErrorReason.OVERLOADED)) {
              logger.warn({ err, job: id }, 'what a lost run of a job was charged cannot be given back; trying again');
            }
            return false;
          },
        );
  if (!(await telling)) return false;
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
