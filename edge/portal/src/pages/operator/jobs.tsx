import { useSearchParameter } from '../../router/router.ts';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Select } from '../../ui/field.tsx';
import { Page } from '../../ui/page.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import type { Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { JobStatus } from '../jobs/job-parts.tsx';
import { jobStatusChoices } from '../jobs/job-statuses.ts';
import { OrganizationName } from './organization-name.tsx';
import type { AdminJob } from './types.ts';

const refreshMs = 5000;

export function OperatorJobs() {
  const [status, setStatus] = useSearchParameter('status', '');
  return (
    <Page title="All jobs" description="Background jobs of every organization, without their bodies and results.">
      <div>
        <Select aria-label="Status" value={status} onChange={setStatus} choices={jobStatusChoices} />
      </div>
      <PagedCard<AdminJob>
        label="Jobs"
        wordy
        path="/admin/jobs"
        query={{ status }}
        columns={columns}
        rowKey={(job) => job.id}
        options={{ refetchIntervalMs: refreshMs }}
        empty={<EmptyState icon="job" title="No jobs" />}
      />
    </Page>
  );
}

const columns: readonly Column<AdminJob>[] = [
  { name: 'Job', cell: (job) => <code className="font-mono text-xs wrap-anywhere">{job.id}</code> },
  { name: 'Organization', cell: (job) => <OrganizationName id={job.tenant_id} /> },
  {
    name: 'Model',
    sortBy: (job) => job.model,
    cell: (job) => <span className="font-mono text-xs wrap-anywhere">{job.model}</span>,
  },
  { name: 'Status', cell: (job) => <JobStatus job={job} /> },
  { name: 'Attempts', end: true, cell: (job) => job.attempts },
  { name: 'Submitted', sortBy: (job) => job.created_at, cell: (job) => <Time value={job.created_at} relative /> },
];
