import { useState } from 'react';
import { useWholeList } from '../../api/hooks.ts';
import { formatCount } from '../../format/number.ts';
import { Status } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Page } from '../../ui/page.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { PlanDialog } from './plan-dialog.tsx';
import { limitLabels, limitNames } from './rate-limit-fields.tsx';
import type { AdminPlan } from './types.ts';

/** How often the plans are read again, in milliseconds: a form must not be filled in over what somebody else has changed. */
const refreshMs = 5000;

export function Plans() {
  const plans = useWholeList<AdminPlan>('/admin/plans', { refetchIntervalMs: refreshMs });
  const [creating, setCreating] = useState(false);
  const [editing, setEditing] = useState<string | null>(null);
  const edited = plans.data?.find(({ code }) => code === editing);
  const taken = (plans.data ?? []).map(({ code }) => code);
  return (
    <Page
      title="Plans"
      description="What organizations may use and how they pay. Choose an organization’s plan in its settings."
      actions={
        <Button look="primary" icon="plus" disabled={plans.data === undefined} onClick={() => setCreating(true)}>
          Create plan
        </Button>
      }
    >
      <Card flush>
        <Loaded of={plans}>
          {(rows) => <Table label="Plans" rows={rows} columns={columnsOf(setEditing)} rowKey={(plan) => plan.code} />}
        </Loaded>
      </Card>
      {creating && <PlanDialog taken={taken} onClose={() => setCreating(false)} />}
      {edited !== undefined && <PlanDialog plan={edited} taken={taken} onClose={() => setEditing(null)} />}
    </Page>
  );
}

const columnsOf = (edit: (code: string) => void): readonly Column<AdminPlan>[] => [
  {
    name: 'Plan',
    sortBy: (plan) => plan.name.toLowerCase(),
    cell: (plan) => (
      <span className="wrap-anywhere">
        <span className="font-medium">{plan.name}</span>
        <code className="block font-mono text-xs text-faint">{plan.code}</code>
        {plan.included.features.length > 0 && (
          <span className="block text-xs text-soft">{plan.included.features.join(', ')}</span>
        )}
      </span>
    ),
  },
  {
    name: 'Pay as you go',
    cell: (plan) => <Status tone={plan.payg_enabled ? 'good' : 'neutral'}>{plan.payg_enabled ? 'On' : 'Off'}</Status>,
  },
  { name: 'Monthly credit', usd: (plan) => plan.included.monthly_credit_usd, exact: true },
  ...limitNames.map((limit) => ({
    name: limitLabels[limit],
    end: true,
    cell: (plan: AdminPlan) => formatCount(plan.rate_limits[limit]),
  })),
  {
    name: 'Invoices due',
    end: true,
    cell: (plan) => (plan.payment_terms_days === 1 ? 'after 1 day' : `after ${plan.payment_terms_days} days`),
  },
  {
    name: '',
    end: true,
    cell: (plan) => (
      <Button size="small" aria-label={`Edit ${plan.name}`} onClick={() => edit(plan.code)}>
        Edit
      </Button>
    ),
  },
];
