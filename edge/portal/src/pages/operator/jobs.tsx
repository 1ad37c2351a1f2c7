import { useMemo, useState } from 'react';
import { useClaims, useGet } from '../../api/hooks.ts';
import type { List } from '../../api/types.ts';
import { useEmails } from '../../api/use-emails.ts';
import { useSearchParameter } from '../../router/router.ts';
import { ButtonLink } from '../../ui/button.tsx';
import { Facts } from '../../ui/card.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Select } from '../../ui/field.tsx';
import { MonoName } from '../../ui/name-parts.tsx';
import { Narrowed } from '../../ui/narrowed.tsx';
import { Page } from '../../ui/page.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import { SearchBox, useSearch } from '../../ui/search-box.tsx';
import { ShortId } from '../../ui/short-id.tsx';
import type { Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { JobError, JobStatus, timesOf } from '../jobs/job-parts.tsx';
import { jobStatusChoices } from '../jobs/job-statuses.ts';
import { ModelFilter } from './model-filter.tsx';
import { OrganizationName, useOrganizationName } from './organization-name.tsx';
import type { AdminJob } from './types.ts';
import { UserLink } from './user-link.tsx';

const refreshMs = 5000;

/** Jobs of any organization: by the id that their client quotes, or by whose they are, their model and status. */
export function OperatorJobs() {
  const jobId = useSearch();
  const [organization, setOrganization] = useSearchParameter('organization', '');
  const [model, setModel] = useSearchParameter('model', '');
  const [status, setStatus] = useSearchParameter('status', '');
  const name = useOrganizationName(organization);
  const [open, setOpen] = useState<AdminJob | null>(null);
  const columns = useMemo(() => columnsOf(setOpen), []);
  // One that is looked up may be anybody's, of any model and status, so that the filters are off.
  const isLookUp = jobId !== '';
  return (
    <Page title="All jobs" description="Background jobs of every organization, without their bodies and results.">
      <div className="flex flex-wrap items-center gap-2">
        <SearchBox label="Job id" />
        <ModelFilter value={model} onChange={setModel} off={isLookUp} />
        <Select
          aria-label="Status"
          value={isLookUp ? '' : status}
          disabled={isLookUp}
          onChange={setStatus}
          choices={jobStatusChoices}
        />
        {organization !== '' && !isLookUp && (
          <Narrowed onAll={() => setOrganization('')}>Only jobs of {name ?? 'one organization'}</Narrowed>
        )}
      </div>
      <PagedCard<AdminJob>
        label="Jobs"
        wordy
        path="/admin/jobs"
        query={isLookUp ? { job_id: jobId } : { tenant_id: organization, model, status }}
        columns={columns}
        rowKey={(job) => job.id}
        options={{ refetchIntervalMs: refreshMs }}
        empty={
          isLookUp ? (
            <EmptyState icon="search" title="No job has this id">
              A job is deleted 24 hours after it ends, or before by its owner.
            </EmptyState>
          ) : (
            <EmptyState icon="job" title="No jobs" />
          )
        }
      />
      {open !== null && <JobDialog job={open} onClose={() => setOpen(null)} />}
    </Page>
  );
}

/** What operators may know of a job: whose it is, how far it has come, and why it failed. */
function JobDialog({ job: listed, onClose }: { job: AdminJob; onClose: () => void }) {
  const { userId } = useClaims();
  const current = useGet<List<AdminJob>>(
    '/admin/jobs',
    { job_id: listed.id },
    { refetchIntervalMs: refreshMs, keepPrevious: false },
  );
  const job = current.data?.data[0] ?? listed;
  const emails = useEmails([job.user_id]);
  return (
    <Dialog open onClose={onClose} title="Job" description={job.id}>
      <div className="grid gap-5">
        <JobError job={job} />
        <Facts
          facts={[
            ['Status', <JobStatus key="status" job={job} />],
            ['Organization', <OrganizationName key="organization" id={job.tenant_id} />],
            ['User', <UserLink key="user" tenantId={job.tenant_id} id={job.user_id} email={emails.get(job.user_id)} />],
            ['Key', job.api_key_id === null ? 'None: a session' : <ShortId key="key" id={job.api_key_id} />],
            ['Model', <MonoName key="model" name={job.model} />],
            ['Endpoint', <MonoName key="endpoint" name={job.endpoint} />],
            ...timesOf(job),
            ['Attempts', job.attempts],
            ['Worker', job.worker_id === null ? 'None has it' : <ShortId key="worker" id={job.worker_id} />],
          ]}
        />
        {job.user_id === userId && (
          <DialogActions>
            <ButtonLink href={`/jobs/${job.id}`}>Open your job</ButtonLink>
          </DialogActions>
        )}
      </div>
    </Dialog>
  );
}

const columnsOf = (open: (job: AdminJob) => void): readonly Column<AdminJob>[] => [
  {
    name: 'Job',
    cell: (job) => (
      <button
        type="button"
        className="text-left font-mono text-xs wrap-anywhere hover:underline"
        onClick={() => open(job)}
      >
        {job.id}
      </button>
    ),
  },
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
