import type { ReactNode } from 'react';
import { useAction } from '../../api/hooks.ts';
import type { Job } from '../../api/types.ts';
import { Status } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Time } from '../../ui/time.tsx';
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
      <Status tone={tones[job.status]}>{jobStatusNames[job.status]}</Status>
    </span>
  );
}

/** Why a job failed; nothing if it did not. */
export function JobError({ job: { error } }: { job: Pick<Job, 'error'> }) {
  if (error === null) return null;
  return (
    <Notice tone="danger">
      {error.message}
      {error.code !== null && <code className="mt-1 block font-mono text-xs">{error.code}</code>}
    </Notice>
  );
}

/** When a job began and ended. */
export const timesOf = (job: Times): readonly (readonly [string, ReactNode])[] => [
  ['Submitted', <Time key="created" value={job.created_at} />],
  ['Started', <Time key="started" value={job.started_at} none={hasEnded(job) ? 'Never' : 'Not yet'} />],
  ['Ended', <Time key="ended" value={job.completed_at ?? job.failed_at ?? job.cancelled_at} none="Not yet" />],
];
type Times = Pick<Job, 'status' | 'created_at' | 'started_at' | 'completed_at' | 'failed_at' | 'cancelled_at'>;

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
