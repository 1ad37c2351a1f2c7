import { useState } from 'react';
import { useSearchParameter } from '../../router/router.ts';
import { CodeBlock } from '../../ui/code-block.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Email } from '../../ui/email.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Select } from '../../ui/field.tsx';
import { Page } from '../../ui/page.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import { SearchBox, useSearch } from '../../ui/search-box.tsx';
import type { Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { SendingStatus } from './sending-status.tsx';
import type { Mail as MailRow } from './types.ts';

const statuses = {
  queued: ['warn', 'Queued'],
  sent: ['good', 'Sent'],
  failed: ['danger', 'Failed'],
  dropped: ['neutral', 'Dropped'],
} as const;
const refreshMs = 5000;

export function Mail() {
  const search = useSearch();
  const [status, setStatus] = useSearchParameter('status', '');
  const [open, setOpen] = useState<MailRow | null>(null);
  const columns: readonly Column<MailRow>[] = [
    {
      name: 'To',
      sortBy: (mail) => mail.to,
      cell: (mail) => (
        <span className="inline-block min-[17rem]:min-w-44">
          <Email address={mail.to} />
        </span>
      ),
    },
    {
      name: 'Subject',
      cell: (mail) => (
        <button
          type="button"
          onClick={() => setOpen(mail)}
          className="block text-left font-medium wrap-anywhere hover:underline"
        >
          {mail.subject}
        </button>
      ),
    },
    {
      name: 'Status',
      cell: ({ status, last_error }) => (
        <SendingStatus tone={statuses[status][0]} name={statuses[status][1]} lastError={last_error} />
      ),
    },
    { name: 'Attempts', end: true, cell: (mail) => mail.attempts },
    { name: 'Created', sortBy: (mail) => mail.created_at, cell: (mail) => <Time value={mail.created_at} /> },
    {
      name: 'Sent',
      cell: (mail) => <Time value={mail.sent_at} none={mail.next_attempt_at === null ? '—' : 'Waiting'} />,
    },
  ];
  return (
    <Page title="Mail outbox" description="Every email the platform sends. Without SMTP_URL, emails stay here.">
      <div className="flex flex-wrap gap-2">
        <SearchBox label="Search addresses" />
        <Select
          aria-label="Status"
          value={status}
          onChange={setStatus}
          choices={[
            { value: '', label: 'All statuses' },
            ...Object.entries(statuses).map(([value, [, label]]) => ({ value, label })),
          ]}
        />
      </div>
      <PagedCard<MailRow>
        label="Emails"
        wordy
        path="/admin/mail"
        query={{ search, status }}
        columns={columns}
        rowKey={(mail) => mail.id}
        options={{ refetchIntervalMs: refreshMs }}
        empty={<EmptyState icon="mail" title={search === '' && status === '' ? 'No emails' : 'No emails match'} />}
      />
      {open !== null && (
        <Dialog open onClose={() => setOpen(null)} wide title={open.subject} description={`To ${open.to}`}>
          {open.last_error !== null && <p className="mb-3 text-sm text-danger wrap-anywhere">{open.last_error}</p>}
          {open.status === 'dropped' && open.last_error === null && (
            <p className="mb-3 text-sm text-soft">
              Not sent: its link was used, withdrawn or has expired, or its recipient is no longer active.
            </p>
          )}
          <CodeBlock
            wraps
            label="The email's text"
            code={open.text ?? 'The text is not shown, or can no longer be read.'}
          />
        </Dialog>
      )}
    </Page>
  );
}
