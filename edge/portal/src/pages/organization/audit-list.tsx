import { useGet } from '../../api/hooks.ts';
import type { AuditEvent, List } from '../../api/types.ts';
import { usePageParameter } from '../../router/router.ts';
import { Badge } from '../../ui/badge.tsx';
import { Card } from '../../ui/card.tsx';
import { Email } from '../../ui/email.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Pager } from '../../ui/pagination.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';

/** `names` are those of users and organizations by their ids; whoever has none is shown by a short id. */
export function AuditList({ path, names }: { path: string; names: ReadonlyMap<string, string> }) {
  const [page, setPage] = usePageParameter();
  const events = useGet<List<AuditEvent>>(path, { page, limit: 25 });
  return (
    <Card flush>
      <Loaded of={events}>
        {(list) => (
          <>
            <Table
              label="Audit events"
              wordy
              rows={list.data}
              columns={columnsWith(names)}
              pagination={list.pagination}
              rowKey={(event) => event.id}
              empty={<EmptyState icon="log" title="No events yet" />}
            />
            <Pager pagination={list.pagination} onPage={setPage} />
          </>
        )}
      </Loaded>
    </Card>
  );
}

const columnsWith = (names: ReadonlyMap<string, string>): readonly Column<AuditEvent>[] => [
  { name: 'Time', sortBy: (event) => event.occurred_at, cell: (event) => <Time value={event.occurred_at} /> },
  { name: 'Event', sortBy: (event) => event.type, cell: (event) => <Badge>{event.type}</Badge> },
  {
    name: 'By',
    cell: (event) => (
      <span className="block min-w-36 wrap-anywhere" title={event.actor.id ?? undefined}>
        <span className="capitalize">{event.actor.type.replace('_', ' ')}</span>{' '}
        {event.actor.id !== null && <Name id={event.actor.id} names={names} />}
        {event.actor.ip && <span className="block text-xs text-faint">{event.actor.ip}</span>}
      </span>
    ),
  },
  {
    name: 'On',
    cell: (event) => (
      <span className="block min-w-28 wrap-anywhere" title={event.target.id ?? undefined}>
        {event.target.type.replace('_', ' ')}{' '}
        {event.target.id !== null && (
          <span className="block">
            <Name id={event.target.id} names={names} />
          </span>
        )}
      </span>
    ),
  },
  { name: 'Change', cell: (event) => <Changes changes={event.changes} /> },
];

function Name({ id, names }: { id: string; names: ReadonlyMap<string, string> }) {
  const name = names.get(id);
  if (name !== undefined)
    return (
      <span className="text-xs text-soft">
        <Email address={name} />
      </span>
    );
  return <span className="font-mono text-xs text-faint">{id.length > 24 ? `…${id.slice(-8)}` : id}</span>;
}

/** The changed fields, before and after. */
function Changes({ changes }: { changes: AuditEvent['changes'] }) {
  const before = (changes?.before ?? {}) as Record<string, unknown>;
  const after = (changes?.after ?? {}) as Record<string, unknown>;
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  if (names.length === 0) return <span className="text-faint">—</span>;
  return (
    <details className="min-w-0">
      <summary className="text-soft hover:text-ink">{names.join(', ')}</summary>
      <dl className="mt-1.5 grid gap-1.5 text-xs">
        {names.map((name) => (
          <div key={name}>
            <dt className="font-medium">{name}</dt>
            {name in before && <dd className="text-danger wrap-anywhere">− {JSON.stringify(before[name])}</dd>}
            {name in after && <dd className="text-good wrap-anywhere">+ {JSON.stringify(after[name])}</dd>}
          </div>
        ))}
      </dl>
    </details>
  );
}
