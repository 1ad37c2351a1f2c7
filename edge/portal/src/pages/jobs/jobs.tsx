import { useGet } from '../../api/hooks.ts';
import type { JobStats, ListedJob } from '../../api/types.ts';
import { formatCount } from '../../format/number.ts';
import { Link } from '../../router/link.tsx';
import { useSearchParameter } from '../../router/router.ts';
import { Tile, TileRow } from '../../ui/card.tsx';
import { CodeBlock } from '../../ui/code-block.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Select } from '../../ui/field.tsx';
import { Page } from '../../ui/page.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import type { Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { modelToTry } from '../models/model-to-try.ts';
import { useModels } from '../models/use-models.ts';
import { CancelJob, JobStatus } from './job-parts.tsx';
import { jobStatusChoices } from './job-statuses.ts';

const refreshMs = 3000;

export function Jobs() {
  const [status, setStatus] = useSearchParameter('status', '');
  const stats = useGet<JobStats>('/jobs/stats', undefined, { refetchIntervalMs: refreshMs });
  return (
    <Page title="Jobs" description="Calls that run in the background. Results are kept for 24 hours.">
      <Loaded of={stats}>
        {(data) => (
          <TileRow>
            <Tile
              label="Queued"
              value={formatCount(data.by_status.queued)}
              detail={
                data.oldest_queued_at === null ? undefined : (
                  <>
                    oldest <Time value={data.oldest_queued_at} relative />
                  </>
                )
              }
            />
            <Tile label="In progress" value={formatCount(data.by_status.in_progress)} />
            <Tile label="Completed" value={formatCount(data.by_status.completed)} />
            <Tile label="Failed" value={formatCount(data.by_status.failed)} />
          </TileRow>
        )}
      </Loaded>
      <div>
        <Select aria-label="Status" value={status} onChange={setStatus} choices={jobStatusChoices} />
      </div>
      <PagedCard<ListedJob>
        label="Jobs"
        wordy
        path="/jobs"
        query={{ status }}
        columns={columns}
        rowKey={(job) => job.id}
        empty={<NoJobs filtered={status !== ''} />}
        options={{ refetchIntervalMs: refreshMs }}
      />
    </Page>
  );
}

function NoJobs({ filtered }: { filtered: boolean }) {
  const models = useModels({ operation: 'chat_completions' }, {});
  const model = modelToTry(models.data?.data ?? [])?.id ?? '<model>';
  if (filtered) return <EmptyState icon="search" title="No jobs with this status" />;
  return (
    <>
      <EmptyState icon="job" title="No jobs yet">
        Add <code className="font-mono">"background": true</code> to any inference call: it returns a job at once.
      </EmptyState>
      <div className="px-5 pb-5">
        <CodeBlock
          label="A background call"
          code={`curl ${window.location.origin}/v1/chat/completions \\\n  -H "Authorization: Bearer $MODEL_GATEWAY_KEY" \\\n  -H "Content-Type: application/json" \\\n  -d '{"model":"${model}","messages":[{"role":"user","content":"Hello"}],"background":true}'`}
        />
      </div>
    </>
  );
}

const columns: readonly Column<ListedJob>[] = [
  {
    name: 'Job',
    cell: (job) => (
      <Link href={`/jobs/${job.id}`} className="font-mono text-xs wrap-anywhere hover:underline">
        {job.id}
      </Link>
    ),
  },
  {
    name: 'Model',
    sortBy: (job) => job.model,
    cell: (job) => <span className="font-mono text-xs wrap-anywhere">{job.model}</span>,
  },
  { name: 'Endpoint', cell: (job) => <span className="font-mono text-xs wrap-anywhere">{job.endpoint}</span> },
  { name: 'Status', sortBy: (job) => job.status, cell: (job) => <JobStatus job={job} /> },
  { name: 'Submitted', sortBy: (job) => job.created_at, cell: (job) => <Time value={job.created_at} relative /> },
  { name: '', end: true, cell: (job) => <CancelJob job={job} /> },
];
