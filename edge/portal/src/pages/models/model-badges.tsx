import type { Model, Rates } from '../../api/types.ts';
import { daysUntil, formatUtc } from '../../format/time.ts';
import { useNow } from '../../shell/now.ts';
import { Badge, Status } from '../../ui/badge.tsx';
import { Time } from '../../ui/time.tsx';
import { operationName } from './operations.ts';
import { priceSummary } from './prices.ts';

/** "Retiring" from the announcement on; a countdown only once there is a date (service.md, Model retirement). */
export function RetiringBadge({ model }: { model: Pick<Model, 'deprecated_at' | 'sunset_at'> }) {
  const now = useNow();
  if (model.deprecated_at === null) return null;
  if (model.sunset_at === null) return <Badge tone="warn">Retiring</Badge>;
  const days = daysUntil(model.sunset_at, now);
  return (
    <Badge tone={days <= 7 ? 'danger' : 'warn'} title={formatUtc(model.sunset_at)}>
      {days < 1 ? 'Retired' : `Retiring · ${days > 1 ? `${days} days` : 'less than a day'} left`}
    </Badge>
  );
}

/** When a retiring model stops, and what comes after it: its successor or the operator's note. */
export function RetirementSentence({
  model: { sunset_at, replacement_model_name, retirement_note },
}: {
  model: Pick<Model, 'sunset_at' | 'replacement_model_name' | 'retirement_note'>;
}) {
  return (
    <>
      {sunset_at === null ? (
        'No date has been set yet.'
      ) : (
        <>
          It stops on <Time value={sunset_at} />.
        </>
      )}{' '}
      {replacement_model_name === null ? retirement_note : `Use ${replacement_model_name} instead.`}
    </>
  );
}

/** What a model can do. */
export function OperationBadges({ model }: { model: Pick<Model, 'operations'> }) {
  return (
    <span className="flex flex-wrap gap-1">
      {model.operations.map((operation) => (
        <Badge key={operation}>{operationName(operation)}</Badge>
      ))}
    </span>
  );
}

/** The rates of a model in short, below them what they are for. */
export function PriceSummary({ price }: { price: Rates | null }) {
  const { amount, unit } = priceSummary(price);
  return (
    <span className="tabular">
      {amount}
      {unit !== undefined && <span className="block text-xs text-faint">{unit}</span>}
    </span>
  );
}

export function ServingStatus({ model }: { model: Pick<Model, 'is_serviceable'> }) {
  return model.is_serviceable ? <Status tone="good">Serving</Status> : <Status tone="danger">Not serving</Status>;
}
