import { Email } from '../../ui/email.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import type { Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { SendingStatus } from './sending-status.tsx';
import type { Reminder } from './types.ts';

const refreshMs = 5000;

/** Who has been told of a model's retirement, or is about to be. */
export function Reminders({ model }: { model: string }) {
  return (
    <PagedCard<Reminder>
      label="Reminders"
      title="Reminders"
      description="Emails to the model's users about its retirement."
      wordy
      path="/admin/reminders"
      query={{ model }}
      columns={columns}
      rowKey={(reminder) => reminder.id}
      empty={<EmptyState icon="mail" title="No reminders yet" />}
      options={{ refetchIntervalMs: refreshMs }}
    />
  );
}

const points = {
  announcement: 'Announcement',
  thirty_days: '30 days before',
  seven_days: '7 days before',
  one_day: '1 day before',
  retirement_day: 'Retirement day',
  withdrawal: 'Withdrawal',
} as const;

const statuses = {
  pending: ['warn', 'Waiting'],
  sent: ['good', 'Sent'],
  failed: ['danger', 'Failed'],
  cancelled: ['neutral', 'Cancelled'],
} as const;

const columns: readonly Column<Reminder>[] = [
  {
    name: 'To',
    sortBy: (reminder) => reminder.email,
    cell: (reminder) => (
      <span className="inline-block min-w-44">
        <Email address={reminder.email} />
      </span>
    ),
  },
  { name: 'When', cell: (reminder) => points[reminder.point] },
  {
    name: 'Status',
    cell: ({ status, last_error }) => (
      <SendingStatus tone={statuses[status][0]} name={statuses[status][1]} lastError={last_error} />
    ),
  },
  { name: 'Due', sortBy: (reminder) => reminder.due_at, cell: (reminder) => <Time value={reminder.due_at} /> },
  { name: 'Sent', cell: (reminder) => <Time value={reminder.sent_at} /> },
];
