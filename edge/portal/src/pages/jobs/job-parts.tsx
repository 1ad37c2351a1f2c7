import { useAction } from '../../api/hooks.ts';
import type { Job } from '../../api/types.ts';
import { Status } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { useToast } from '../../ui/toast.tsx';
import { jobStatusNames } from './job-statuses.ts';

const tones = {
  queued: 'neutral',
  in_progress: 'accent',
  completed: 'good',
  failed: 'danger',
  cancelled: 'neutral',
} as const;

export function JobStatus({ job }: { job: Pick<Job, 'status' | 'error'> }) {
  return (
    <span title={job.error?.message}>
      <Status tone={tones[job.status] ?? 'neutral'}>{jobStatusNames[job.status]}</Status>
    </span>
  );
}

export const hasEnded = (job: Pick<Job, 'status'>): boolean => job.status !== 'queued' && job.status !== 'in_progress';

/** Cancels a job that is queued or running. */
export function CancelJob({ job, size = 'small' }: { job: Pick<Job, 'id' | 'status'>; size?: 'small' | 'medium' }) {
  const toast = useToast();
  const cancel = useAction<Job>({
    stale: ['/jobs'],
    onSuccess: (after) =>
      toast.say(after.status === 'cancelled' ? 'Job cancelled.' : `The job had already ended: ${after.status}.`),
    complains: true,
  });
  if (hasEnded(job)) return null;
  return (
    <Button
      size={size}
      aria-label={`Cancel ${job.id}`}
      pending={cancel.pending}
      onClick={() => cancel.run({ method: 'POST', path: `/jobs/${job.id}/cancel` })}
    >
      Cancel
    </Button>
  );
}
