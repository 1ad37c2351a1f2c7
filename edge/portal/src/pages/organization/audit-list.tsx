import type { ReactNode } from 'react';
import type { AuditEventType } from '#shared/audit-outbox/event-types.ts';
import { useGet } from '../../api/hooks.ts';
import type { AuditEvent, List } from '../../api/types.ts';
import { isUuid } from '../../format/id.ts';
import { formatCount, jsonText } from '../../format/number.ts';
import { addDays } from '../../format/time.ts';
import { Link } from '../../router/link.tsx';
import { searchWith, usePageParameter, usePlace, useSearchParameter } from '../../router/router.ts';
import { Badge } from '../../ui/badge.tsx';
import { Card } from '../../ui/card.tsx';
import { classNames } from '../../ui/class-names.ts';
import { DayFilter, useDays } from '../../ui/day-filter.tsx';
import { Email } from '../../ui/email.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Select } from '../../ui/field.tsx';
import { NameParts } from '../../ui/name-parts.tsx';
import { Narrowed } from '../../ui/narrowed.tsx';
import { PagedTable } from '../../ui/paged-table.tsx';
import { ShortId } from '../../ui/short-id.tsx';
import type { Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';

type AuditListProps = {
  /** Where the API has the list. */
  path: string;
  /** The types of events that can occur in the list, to filter by. */
  types: readonly AuditEventType[];
  /** Reads the names of people by their ids; without a name, a short form of the id is shown. */
  usePeople: (ids: readonly string[]) => ReadonlyMap<string, string>;
  /** Names of what else events are about, by id. */
  names?: ReadonlyMap<string, string>;
  /** Shows only the events of this chain; without it, every event that the API returns. */
  tenantId?: string;
  /** Shows to whose chain an event belongs, in lists that cover several organizations. */
  showOrganization?: (id: string) => ReactNode;
  /** Further filters. */
  children?: ReactNode;
};

export function AuditList({
  path,
  types,
  usePeople,
  names,
  tenantId = '',
  showOrganization,
  children,
}: AuditListProps) {
  const { path: place } = usePlace();
  const [page, setPage] = usePageParameter();
  const [type, setType] = useSearchParameter('type', '');
  const [sequence, setSequence] = useSearchParameter('sequence', '');
  const [actor, setActor] = useSearchParameter('actor', '');
  const [target, setTarget] = useSearchParameter('target', '');
  const [days, setDays] = useDays();
  const query = {
    type,
    tenant_id: tenantId,
    actor_id: actor,
    target_id: target,
    // Anything that is not an event number, such as one still being typed, does not filter.
    sequence: /^[1-9]\d{0,14}$/.test(sequence) ? sequence : '',
    occurred_from: days.start,
    // The API takes moments; a day stands for its first moment.
    occurred_before: days.end === '' ? '' : addDays(days.end, 1),
  };
  const events = useGet<List<AuditEvent>>(path, { page, limit: 25, ...query });
  const shown = events.data?.data ?? [];
  const people = usePeople([...shown.flatMap(peopleOf), ...[actor, target].filter(isUuid)]);
  const named = new Map(shown.toReversed().flatMap(namedIn));
  const nameOf = (id: string) => people.get(id) ?? names?.get(id) ?? named.get(id);
  const isNarrowed = Object.values(query).some((value) => value !== '');
  return (
    <>
      <div className="flex flex-wrap items-center gap-2">
        <Select
          aria-label="Event"
          value={type}
          onChange={setType}
          choices={[{ value: '', label: 'All events' }, ...types.map((value) => ({ value, label: value }))]}
        />
        {children}
        <input
          type="search"
          inputMode="numeric"
          aria-label="Event number"
          placeholder="No."
          value={sequence}
          onChange={(event) => setSequence(event.target.value)}
          className="h-9 w-28 rounded-md border border-edge bg-surface px-3 text-base tabular"
        />
        <DayFilter days={days} onChange={setDays} />
        {actor !== '' && (
          <Narrowed onAll={() => setActor('')}>Only events by {nameOf(actor) ?? <ShortId id={actor} />}</Narrowed>
        )}
        {target !== '' && (
          <Narrowed onAll={() => setTarget('')}>Only events on {nameOf(target) ?? <ShortId id={target} />}</Narrowed>
        )}
      </div>
      <Card flush>
        <Loaded of={events}>
          {(list) => (
            <PagedTable
              label="Audit events"
              wordy
              list={list}
              onPage={setPage}
              columns={columnsWith({ nameOf, showOrganization, path: place })}
              rowKey={(event) => event.id}
              empty={
                isNarrowed ? (
                  <EmptyState icon="search" title="No events match" />
                ) : (
                  <EmptyState icon="log" title="No events yet" />
                )
              }
            />
          )}
        </Loaded>
      </Card>
    </>
  );
}

/** The ids of the people who are an event's actor or target. */
const peopleOf = ({ actor, target }: AuditEvent): string[] =>
  [actor, target].flatMap(({ type, id }) => (id !== null && ['user', 'operator'].includes(type) ? [id] : []));

/** The name of an event's target, by its id, if the event says it: that of a key that is made or deleted, for instance. */
const namedIn = ({ target, changes }: AuditEvent): [string, string][] => {
  const name = changes?.after?.name ?? changes?.before?.name;
  return target.id !== null && typeof name === 'string' ? [[target.id, name]] : [];
};

const columnsWith = ({
  nameOf,
  showOrganization,
  path,
}: Pick<AuditListProps, 'showOrganization'> & {
  nameOf: (id: string) => string | undefined;
  /** Of the page. */
  path: string;
}): readonly Column<AuditEvent>[] => {
  const show = (parameter: 'actor' | 'target', id: string | null) =>
    id !== null && (
      <Link
        href={path + searchWith({ [parameter]: id, page: null })}
        title={`Only events ${parameter === 'actor' ? 'by' : 'on'} ${id}`}
        className="inline-block min-h-6 hover:underline"
      >
        <Name id={id} name={nameOf(id)} />
      </Link>
    );
  return [
    { name: 'Time', sortBy: (event) => event.occurred_at, cell: (event) => <Time value={event.occurred_at} /> },
    {
      name: 'No.',
      cell: (event) => (
        <span className={classNames('block wrap-anywhere', event.tenant_id !== undefined && 'min-w-18')}>
          <span className="tabular whitespace-nowrap">{formatCount(event.sequence)}</span>
          {event.tenant_id !== undefined && (
            <span className="block">
              {event.tenant_id === null ? (
                <span className="text-xs text-soft">Platform</span>
              ) : (
                showOrganization?.(event.tenant_id)
              )}
            </span>
          )}
        </span>
      ),
    },
    {
      name: 'Event',
      sortBy: (event) => event.type,
      cell: (event) => (
        <span className="block min-w-32">
          <Badge wraps>
            <NameParts name={event.type} />
          </Badge>
        </span>
      ),
    },
    {
      name: 'By',
      cell: (event) => (
        <span className="block wrap-anywhere lg:min-w-40">
          <span className="block capitalize">{event.actor.type.replace('_', ' ')}</span>
          {show('actor', event.actor.id)}
          {event.actor.ip && <span className="block text-xs text-faint">{event.actor.ip}</span>}
        </span>
      ),
    },
    {
      name: 'On',
      cell: (event) => (
        <span className="block min-w-28 wrap-anywhere">
          {event.target.type.replace('_', ' ')} <span className="block">{show('target', event.target.id)}</span>
        </span>
      ),
    },
    { name: 'Change', cell: (event) => <Changes changes={event.changes} /> },
  ];
};

/** The name behind an id, or a short form of the id until the name is known. */
export function Name({ id, name }: { id: string; name: string | undefined }) {
  if (name !== undefined)
    return (
      <span className="line-clamp-3 text-xs text-soft">
        <Email address={name} />
      </span>
    );
  return <span className="font-mono text-xs text-faint">{id.length > 24 ? `…${id.slice(-8)}` : id}</span>;
}

/** The first of several names, so that a row stays low: what is new has many fields. */
const summaryOf = (names: readonly string[]): string =>
  names.length > 3 ? `${names.slice(0, 2).join(', ')} and ${formatCount(names.length - 2)} more` : names.join(', ');

/** The changed fields, before and after. */
function Changes({ changes }: { changes: AuditEvent['changes'] }) {
  const before = changes?.before ?? {};
  const after = changes?.after ?? {};
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  if (names.length === 0) return <span className="text-faint">—</span>;
  return (
    <details className="min-w-0">
      <summary className="text-soft hover:text-ink">
        <NameParts name={summaryOf(names)} />
      </summary>
      <dl className="mt-1.5 grid gap-1.5 text-xs">
        {names.map((name) => (
          <div key={name}>
            <dt className="font-medium">
              <NameParts name={name} />
            </dt>
            {name in before && <dd className="text-danger wrap-anywhere">− {jsonText(before[name])}</dd>}
            {name in after && <dd className="text-good wrap-anywhere">+ {jsonText(after[name])}</dd>}
          </div>
        ))}
      </dl>
    </details>
  );
}
