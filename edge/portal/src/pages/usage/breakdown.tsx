import { useGet } from '../../api/hooks.ts';
import type { Measures, TenantBreakdown, UsageSummary } from '../../api/types.ts';
import { useSearchParameter } from '../../router/router.ts';
import { Card } from '../../ui/card.tsx';
import { Email } from '../../ui/email.tsx';
import { Loaded } from '../../ui/failure.tsx';
import type { DayRange } from '../../ui/range-picker.tsx';
import { Skeleton } from '../../ui/skeleton.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import type { Granularity } from '../keys/analytics/range.ts';
import { BreakdownExport } from './breakdown-export.tsx';
import { BreakdownTable } from './breakdown-table.tsx';
import { History } from './history.tsx';
import { SummaryTiles } from './summary-tiles.tsx';
import { UserTable } from './user-table.tsx';

type BreakdownProps = { range: DayRange; timezone: string; scope: string; granularity: Granularity; isAdmin: boolean };

/** A range's totals, and what they consist of: by model, key, endpoint, user and request. */
export function Breakdown({ range, timezone, scope, granularity, isAdmin }: BreakdownProps) {
  const query = { start_date: range.start, end_date: range.end, timezone };
  const [tab, setTab] = useSearchParameter('by', 'model');
  const summary = useGet<UsageSummary>('/usage/summary', { ...query, scope });
  const showsOwners = scope === 'tenant' && (tab === 'key' || tab === 'request');
  const users = useGet<TenantBreakdown>('/usage/tenant-breakdown', query, {
    enabled: isAdmin && (tab === 'user' || showsOwners),
  });
  const emails = new Map(users.data?.users.map(({ user_id, email }) => [user_id, email]));
  const usedKeys = new Map(summary.data?.by_api_key.map((row) => [row.api_key_id, row]));
  const keyName = (id: string | null): string => {
    if (id === null || id === '') return 'Playground and other sessions';
    const { api_key_name, api_key_deleted } = usedKeys.get(id) ?? {};
    const name = api_key_name ?? `Key …${id.slice(-8)}`;
    return api_key_deleted ? `${name} (deleted)` : name;
  };
  const keysByName = Map.groupBy(usedKeys.keys(), keyName);
  /** As `keyName`, but keys of one name, as teammates may have, are told apart. */
  const distinctKeyName = (id: string | null): string => {
    const name = keyName(id);
    const preview = usedKeys.get(id)?.api_key_preview;
    return preview && keysByName.get(name)!.length > 1 ? `${name} (${preview})` : name;
  };
  const rows = <Row extends Measures>(
    list: readonly Row[],
    id: (row: Row) => string,
    nameOf: typeof keyName = String,
  ) => list.map((row) => ({ ...row, id: id(row), name: nameOf(id(row)) }));
  const exportBy = (groupBy: 'model' | 'api_key' | 'endpoint') => (
    <BreakdownExport groupBy={groupBy} granularity={granularity} query={{ ...query, scope }} />
  );
  return (
    <>
      <Loaded of={summary} skeleton={<Skeleton className="h-53 w-full rounded-xl lg:h-25" />}>
        {(data) => <SummaryTiles summary={data} />}
      </Loaded>
      <Tabs
        label="Breakdown"
        value={tab}
        onChange={setTab}
        tabs={[
          {
            value: 'model',
            label: 'By model',
            content: (
              <Card flush title="Usage by model" action={exportBy('model')}>
                <Loaded of={summary}>
                  {(data) => (
                    <BreakdownTable
                      what="Model"
                      mono
                      rows={rows(data.by_model, (row) => row.model)}
                      filter={({ model }) => ({ model })}
                    />
                  )}
                </Loaded>
              </Card>
            ),
          },
          {
            value: 'key',
            label: 'By key',
            content: (
              <Card flush title="Usage by key" action={exportBy('api_key')}>
                <Loaded of={summary}>
                  {(data) => (
                    <BreakdownTable
                      what="Key"
                      rows={rows(data.by_api_key, (row) => row.api_key_id ?? '', keyName)}
                      href={({ api_key_id }) => api_key_id && `/keys/${api_key_id}`}
                      filter={({ api_key_id }) => (api_key_id ? { key: api_key_id } : null)}
                      detail={({ api_key_preview, api_key_user_id }) =>
                        api_key_preview !== null && (
                          <KeyDetail
                            preview={api_key_preview}
                            owner={showsOwners ? emails.get(api_key_user_id ?? '') : undefined}
                          />
                        )
                      }
                    />
                  )}
                </Loaded>
              </Card>
            ),
          },
          {
            value: 'endpoint',
            label: 'By endpoint',
            content: (
              <Card flush title="Usage by endpoint" action={exportBy('endpoint')}>
                <Loaded of={summary}>
                  {(data) => (
                    <BreakdownTable
                      what="Endpoint"
                      mono
                      rows={rows(data.by_endpoint, (row) => row.endpoint)}
                      filter={({ endpoint }) => ({ endpoint })}
                    />
                  )}
                </Loaded>
              </Card>
            ),
          },
          ...(isAdmin
            ? [
                {
                  value: 'user',
                  label: 'By user',
                  content: (
                    <Card flush title="Everyone in your organization">
                      <Loaded of={users}>{(data) => <UserTable users={data.users} />}</Loaded>
                    </Card>
                  ),
                },
              ]
            : []),
          {
            value: 'request',
            label: 'Requests',
            content: (
              <History
                range={range}
                timezone={timezone}
                scope={scope}
                summary={summary.data}
                keyName={distinctKeyName}
                usedKeys={usedKeys}
                emails={scope === 'tenant' ? emails : null}
              />
            ),
          },
        ]}
      />
    </>
  );
}

/** What tells a key from others of its name: its preview and, once known, its owner's address. */
function KeyDetail({ preview, owner }: { preview: string; owner: string | null | undefined }) {
  return (
    <span className="block text-xs text-faint wrap-anywhere">
      <code className="font-mono">{preview}</code>
      {owner && (
        <>
          {' '}
          · <Email address={owner} />
        </>
      )}
    </span>
  );
}
