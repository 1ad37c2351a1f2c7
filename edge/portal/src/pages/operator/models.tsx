import { useState } from 'react';
import { currentMs } from '../../api/server-clock.ts';
import { Link } from '../../router/link.tsx';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Page } from '../../ui/page.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import { SearchBox, useSearch } from '../../ui/search-box.tsx';
import type { Column } from '../../ui/table.tsx';
import { OperationBadges, PriceSummary, RetiringBadge, ServingStatus } from '../models/model-badges.tsx';
import { priceAt } from '../models/prices.ts';
import { ModelDialog } from './model-dialog.tsx';
import type { AdminModel } from './types.ts';
import { UpstreamDialog } from './upstream-dialog.tsx';

export function OperatorModels() {
  const search = useSearch();
  const [dialog, setDialog] = useState<'model' | 'upstream' | null>(null);
  return (
    <Page
      title="Model catalog"
      description="Every model with its deployments, prices and grants."
      actions={
        <>
          <Button icon="server" onClick={() => setDialog('upstream')}>
            Register upstream
          </Button>
          <Button look="primary" icon="plus" onClick={() => setDialog('model')}>
            Add model
          </Button>
        </>
      }
    >
      <SearchBox label="Search models" placeholder="Search by id" />
      <PagedCard<AdminModel>
        label="Model catalog"
        wordy
        path="/admin/models"
        query={{ search }}
        columns={columns}
        rowKey={(model) => model.id}
        empty={<EmptyState icon="server" title={search === '' ? 'No models yet' : 'No models match'} />}
      />
      {dialog === 'model' && <ModelDialog onClose={() => setDialog(null)} />}
      {dialog === 'upstream' && <UpstreamDialog onClose={() => setDialog(null)} />}
    </Page>
  );
}

const columns: readonly Column<AdminModel>[] = [
  {
    name: 'Model',
    sortBy: (model) => model.id,
    cell: (model) => (
      <div className="min-w-0">
        <span className="flex flex-wrap items-center gap-2">
          <Link
            href={`/operator/models/${encodeURIComponent(model.id)}`}
            className="font-medium wrap-anywhere hover:underline"
          >
            <bdi>{model.display_name}</bdi>
          </Link>
          {model.visibility === 'private' && <Badge>Private</Badge>}
          <RetiringBadge model={model} />
        </span>
        <code className="font-mono text-xs text-faint wrap-anywhere">{model.id}</code>
      </div>
    ),
  },
  { name: 'Operations', cell: (model) => <OperationBadges model={model} /> },
  {
    name: 'Deployments',
    end: true,
    sortBy: (model) => model.deployments.length,
    cell: (model) => model.deployments.length,
  },
  { name: 'Price', cell: (model) => <PriceSummary price={priceAt(model.prices, currentMs()) ?? null} /> },
  { name: 'Status', cell: (model) => <ServingStatus model={model} /> },
];
