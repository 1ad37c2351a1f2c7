import { useState } from 'react';
import { useAction, useGet } from '../../api/hooks.ts';
import type { Job } from '../../api/types.ts';
import { Link } from '../../router/link.tsx';
import type { PageParameters } from '../../router/routed-page.tsx';
import { navigate } from '../../router/router.ts';
import { Button } from '../../ui/button.tsx';
import { Card, Facts, Figures } from '../../ui/card.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Page } from '../../ui/page.tsx';
import { Time } from '../../ui/time.tsx';
import { useToast } from '../../ui/toast.tsx';
import { figuresOf } from '../usage/figures.tsx';
import { JobAnswer } from './job-answer.tsx';
import { CancelJob, hasEnded, JobError, JobStatus, timesOf } from './job-parts.tsx';
import { JobResult } from './job-result.tsx';

const refreshMs = 2000;

export function JobPage({ parameters }: PageParameters) {
  const id = parameters.id ?? '';
  const [asking, setAsking] = useState(false);
  const job = useGet<Job>(`/jobs/${id}`, undefined, {
    // The result of a finished job never changes, and may be large.
    refetchIntervalMs: (last) => (last !== undefined && hasEnded(last) ? null : refreshMs),
    keepPrevious: false,
  });
  const data = job.data;
  return (
    <Page
      title="Job"
      parent={{ name: 'Jobs', href: '/jobs' }}
      badge={data === undefined ? undefined : <JobStatus job={data} />}
      description={<code className="font-mono text-sm wrap-anywhere">{id}</code>}
      actions={
        data === undefined ? undefined : hasEnded(data) ? (
          <Button icon="trash" onClick={() => setAsking(true)}>
            Delete
          </Button>
        ) : (
          <CancelJob job={data} size="medium" />
        )
      }
    >
      {asking && <DeleteDialog id={id} onClose={() => setAsking(false)} />}
      {job.error?.status === 404 && (
        <Notice>A job and its result are deleted 24 hours after it ends. Nobody else’s jobs can be seen.</Notice>
      )}
      <Loaded of={job}>
        {(loaded) => (
          <>
            <JobError job={loaded} />
            <div className="grid items-start gap-5 lg:grid-cols-2">
              <Card>
                <Facts
                  facts={[
                    [
                      'Model',
                      <Link
                        key="model"
                        href={`/models/${encodeURIComponent(loaded.model)}`}
                        className="font-mono text-xs hover:underline"
                      >
                        {loaded.model}
                      </Link>,
                    ],
                    [
                      'Endpoint',
                      <code key="endpoint" className="font-mono text-xs">
                        {loaded.endpoint}
                      </code>,
                    ],
                    ...timesOf(loaded),
                    ['Kept until', <Time key="expires" value={loaded.expires_at} />],
                  ]}
                />
              </Card>
              {loaded.usage !== null && (
                <Card title="Usage">
                  <Figures figures={figuresOf(loaded.usage)} />
                </Card>
              )}
            </div>
            {loaded.result != null && (
              <>
                <JobAnswer result={loaded.result} />
                <JobResult id={loaded.id} result={loaded.result} />
              </>
            )}
          </>
        )}
      </Loaded>
    </Page>
  );
}

function DeleteDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const toast = useToast();
  const remove = useAction({
    stale: ['/jobs'],
    onSuccess: () => toast.say('Job and result deleted.'),
    onDone: () => navigate('/jobs'),
  });
  return (
    <ConfirmDialog
      title="Delete this job?"
      description="Its result is deleted too and cannot be fetched again. This cannot be undone."
      act="Delete job"
      onAct={() => remove.run({ method: 'DELETE', path: `/jobs/${id}` })}
      onClose={onClose}
      pending={remove.pending}
      error={remove.error}
    />
  );
}
