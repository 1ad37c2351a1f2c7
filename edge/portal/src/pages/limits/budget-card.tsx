import { useQueryClient } from '@tanstack/react-query';
import { useAction, useGet } from '../../api/hooks.ts';
import type { Budget } from '../../api/types.ts';
import { formatUsd, formatUsdExact, numberOrText, plainNumber } from '../../format/number.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { fieldError, TextField } from '../../ui/field.tsx';
import { Form, FormError, useEdits } from '../../ui/form.tsx';
import { Meter } from '../../ui/meter.tsx';
import { Skeleton } from '../../ui/skeleton.tsx';
import { Time } from '../../ui/time.tsx';
import { useToast } from '../../ui/toast.tsx';

const spentWhen = { day: 'today', month: 'this month' } as const;

type BudgetCardProps = { title: string; description: string; path: string; editable: boolean };

/** A limit, the amount spent under it, and its editor. */
export function BudgetCard({ title, description, path, editable }: BudgetCardProps) {
  const budget = useGet<Budget>(path);
  return (
    <Card title={title} description={description}>
      <Loaded of={budget} skeleton={<Skeleton className={editable ? 'h-42 w-full' : 'h-13 w-full'} />}>
        {(data) => <BudgetView title={title} budget={data} path={path} editable={editable} />}
      </Loaded>
    </Card>
  );
}

type BudgetViewProps = { title: string; budget: Budget; path: string; editable: boolean };

function BudgetView({ title, budget, path, editable }: BudgetViewProps) {
  const toast = useToast();
  const queries = useQueryClient();
  const { fields, type, saved } = useEdits({ limit: budget.limit_usd === null ? '' : plainNumber(budget.limit_usd) });
  const save = useAction<Budget>({
    stale: [path],
    onSuccess: (answer) => {
      queries.setQueryData([path], answer);
      saved();
      toast.say('Limit saved.');
    },
  });
  const remove = useAction({ stale: [path], onSuccess: () => toast.say('Limit removed.') });
  // What is done now takes the place of a complaint about what was tried before.
  const submit = () => {
    remove.reset();
    save.run({ method: 'PUT', path, body: { limit_usd: numberOrText(fields.limit) } });
  };
  const removeLimit = () => {
    save.reset();
    remove.run({ method: 'DELETE', path });
  };
  return (
    <div className="grid gap-4">
      {budget.limit_usd === null ? (
        <p className="text-sm text-soft">
          No limit. <span className="tabular">{formatUsd(budget.spent_usd)}</span> spent {spentWhen[budget.period]}.
        </p>
      ) : (
        <Meter
          label={`Spent ${spentWhen[budget.period]}`}
          value={budget.spent_usd}
          max={budget.limit_usd}
          text={`${formatUsd(budget.spent_usd)} of ${formatUsdExact(budget.limit_usd)}`}
          detail={
            <>
              {formatUsd(budget.remaining_usd ?? 0)} left · resets <Time value={budget.resets_at} relative />
            </>
          }
        />
      )}
      {editable && (
        <Form label={title} onSubmit={submit} className="grid gap-3">
          <FormError error={save.error ?? remove.error} />
          <TextField
            label="Limit in USD"
            inputMode="decimal"
            hint="0 blocks all spending."
            value={fields.limit}
            onChange={(limit) => type({ limit })}
            error={fieldError(save.error, 'limit_usd')}
          />
          <div className="flex flex-wrap gap-2">
            <Button type="submit" look="primary" pending={save.pending} disabled={fields.limit.trim() === ''}>
              Save limit
            </Button>
            {budget.limit_usd !== null && (
              <Button pending={remove.pending} onClick={removeLimit}>
                Remove limit
              </Button>
            )}
          </div>
        </Form>
      )}
    </div>
  );
}
