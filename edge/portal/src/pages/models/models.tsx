import type { Query } from '../../api/client.ts';
import type { Model } from '../../api/types.ts';
import { formatCompact } from '../../format/number.ts';
import { Link } from '../../router/link.tsx';
import { useSearchParameter } from '../../router/router.ts';
import { Badge } from '../../ui/badge.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Select } from '../../ui/field.tsx';
import { Page } from '../../ui/page.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import { SearchBox, useSearch } from '../../ui/search-box.tsx';
import type { Column } from '../../ui/table.tsx';
import { OperationBadges, PriceSummary, RetirementSentence, RetiringBadge, ServingStatus } from './model-badges.tsx';
import { operationName, operations } from './operations.ts';
import { refetchIntervalMs } from './use-models.ts';

/** What may be listed alone, and how the API is asked for it. */
const states: Readonly<Record<string, { label: string; query: Query }>> = {
  retiring: { label: 'Retiring', query: { is_retiring: true } },
  down: { label: 'Not serving', query: { is_serviceable: false } },
};

export function Models() {
  const search = useSearch();
  const [operation, setOperation] = useSearchParameter('operation', '');
  const [state, setState] = useSearchParameter('state', '');
  const isNarrowed = search !== '' || operation !== '' || state !== '';
  return (
    <Page title="Models" description="What you may call, at what price, and for how long.">
      <div className="flex flex-wrap gap-2">
        <SearchBox label="Search models" />
        <Select
          aria-label="Operation"
          value={operation}
          onChange={setOperation}
          choices={[
            { value: '', label: 'All operations' },
            ...operations.map((value) => ({ value, label: operationName(value) })),
          ]}
        />
        <Select
          aria-label="State"
          value={state}
          onChange={setState}
          choices={[
            { value: '', label: 'All states' },
            ...Object.entries(states).map(([value, { label }]) => ({ value, label })),
          ]}
        />
      </div>
      <PagedCard<Model>
        label="Models"
        wordy
        path="/models"
        // So many fit on a page that most catalogs can be sorted.
        query={{ search, operation, ...states[state]?.query, limit: 100 }}
        columns={columns}
        rowKey={(model) => model.id}
        options={{ refetchIntervalMs }}
        empty={
          isNarrowed ? (
            <EmptyState icon="search" title="No models match these filters" />
          ) : (
            <EmptyState icon="model" title="No models yet">
              An operator can register models, or set UPSTREAM_BASE_URL to discover those of a server.
            </EmptyState>
          )
        }
      />
    </Page>
  );
}

const columns: readonly Column<Model>[] = [
  {
    name: 'Model',
    sortBy: (model) => model.display_name.toLowerCase(),
    cell: (model) => (
      <div className="min-w-0 max-w-md">
        <span className="flex flex-wrap items-center gap-x-2 gap-y-1">
          <Link href={`/models/${encodeURIComponent(model.id)}`} className="font-medium wrap-anywhere hover:underline">
            <bdi>{model.display_name}</bdi>
          </Link>
          {model.visibility === 'private' && <Badge>Private</Badge>}
          <RetiringBadge model={model} />
        </span>
        <code className="block truncate font-mono text-xs text-faint">{model.id}</code>
        {model.deprecated_at !== null && (
          <span className="block text-xs text-soft wrap-anywhere">
            <RetirementSentence model={model} />
          </span>
        )}
      </div>
    ),
  },
  { name: 'Operations', cell: (model) => <OperationBadges model={model} /> },
  {
    name: 'Context',
    end: true,
    sortBy: (model) => model.context_window ?? 0,
    cell: (model) => (model.context_window ? formatCompact(model.context_window) : '—'),
  },
  {
    name: 'Price',
    sortBy: (model) => model.prices?.input_per_million_tokens_usd ?? 0,
    cell: (model) => <PriceSummary price={model.prices} />,
  },
  {
    name: 'Status',
    sortBy: (model) => (model.is_serviceable ? 0 : 1),
    cell: (model) => <ServingStatus model={model} />,
  },
];
