import { useMemo } from 'react';
import type { Model } from '../../api/types.ts';
import { formatCompact } from '../../format/number.ts';
import { Link } from '../../router/link.tsx';
import { useSearchParameter } from '../../router/router.ts';
import { Badge } from '../../ui/badge.tsx';
import { Card } from '../../ui/card.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Select } from '../../ui/field.tsx';
import { Page } from '../../ui/page.tsx';
import { SearchBox, useSearch } from '../../ui/search-box.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { PriceSummary, RetirementSentence, RetiringBadge, ServingStatus } from './model-badges.tsx';
import { operationName } from './operations.ts';
import { useModels } from './use-models.ts';

export function Models() {
  const models = useModels();
  const search = useSearch();
  const [operation, setOperation] = useSearchParameter('operation', '');
  return (
    <Page title="Models" description="What you may call, at what price, and for how long.">
      <Loaded of={models}>
        {({ data }) => <Catalog models={data} search={search} operation={operation} onOperation={setOperation} />}
      </Loaded>
    </Page>
  );
}

type CatalogProps = {
  models: readonly Model[];
  search: string;
  operation: string;
  onOperation: (operation: string) => void;
};

function Catalog({ models, search, operation, onOperation }: CatalogProps) {
  const operations = useMemo(() => [...new Set(models.flatMap((model) => model.operations))].sort(), [models]);
  const shown = useMemo(() => {
    const text = search.toLowerCase();
    return models.filter(
      (model) =>
        `${model.id} ${model.display_name} ${model.owned_by}`.toLowerCase().includes(text) &&
        (operation === '' || model.operations.includes(operation)),
    );
  }, [models, search, operation]);
  return (
    <>
      <div className="flex flex-wrap gap-2">
        <SearchBox label="Search models" />
        <Select
          aria-label="Operation"
          value={operation}
          onChange={onOperation}
          choices={[
            { value: '', label: 'All operations' },
            ...operations.map((value) => ({ value, label: operationName(value) })),
          ]}
        />
      </div>
      <Card flush>
        <Table
          label="Models"
          wordy
          rows={shown}
          columns={columns}
          rowKey={(model) => model.id}
          empty={
            models.length === 0 ? (
              <EmptyState icon="model" title="No models yet">
                An operator can register models, or set UPSTREAM_BASE_URL to discover those of a server.
              </EmptyState>
            ) : (
              <EmptyState icon="search" title="No models match these filters" />
            )
          }
        />
      </Card>
    </>
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
            {model.display_name}
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
  {
    name: 'Operations',
    cell: (model) => (
      <span className="flex flex-wrap gap-1">
        {model.operations.map((operation) => (
          <Badge key={operation}>{operationName(operation)}</Badge>
        ))}
      </span>
    ),
  },
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
