import { useWholeList } from '../../api/hooks.ts';
import { currentMs, utcToday } from '../../api/server-clock.ts';
import type { ApiKey, List, Model, Wallet } from '../../api/types.ts';
import { formatCount } from '../../format/number.ts';
import { addDays, dayMs } from '../../format/time.ts';
import { Link } from '../../router/link.tsx';
import { type Loadable, Loaded, together } from '../../ui/failure.tsx';
import { Skeleton } from '../../ui/skeleton.tsx';
import { ExpiryBadge } from '../keys/key-badges.tsx';
import { RetirementSentence, RetiringBadge } from '../models/model-badges.tsx';
import { useModels } from '../models/use-models.ts';
import { type Budgets, ScarceBudgetItem, scarceBudgets, useBudgets } from './budgets.tsx';
import { type Owed, owedItems, useOwed } from './owed.tsx';

/** How many of the items that need attention are visible at once: a catalog may retire dozens of models. */
const shownMax = 6;

/** What needs attention, once all of it is known: before that, "Nothing" might not be true. */
export function Attention({ wallet }: { wallet: Loadable<Wallet> }) {
  const budgets = useBudgets(wallet);
  const owed = useOwed(wallet);
  const down = useModels({ is_serviceable: false });
  const retiring = useModels({ is_retiring: true });
  // Up to the end of a day, so that the address stays the same until then.
  const expiring = useWholeList<ApiKey>('/api-keys', {
    query: { status: 'active', expires_before: addDays(utcToday(), 8) },
  });
  return (
    <Loaded of={together({ expiring, down, retiring, budgets, owed })} skeleton={<Skeleton className="h-16 w-full" />}>
      {(data) => <Items {...data} />}
    </Loaded>
  );
}

type ItemsProps = {
  expiring: readonly ApiKey[];
  down: List<Model>;
  retiring: List<Model>;
  budgets: Budgets;
  owed: Owed;
};

/**
 * The most urgent first: budgets that refuse calls or soon will, money that is owed, keys about to expire, models out of service, models
 * about to retire.
 */
function Items({ expiring, down, retiring, budgets, owed }: ItemsProps) {
  const soon = expiring
    .filter(({ expires_at }) => endMs(expires_at) - currentMs() < 7 * dayMs)
    .sort((one, other) => endMs(one.expires_at) - endMs(other.expires_at));
  const retiringSoonest = retiring.data.toSorted((one, other) => endMs(one.sunset_at) - endMs(other.sunset_at));
  const items = [
    ...scarceBudgets(budgets).map((budget) => <ScarceBudgetItem key={budget.id} budget={budget} />),
    ...owedItems(owed),
    ...soon.map((key) => (
      <li key={key.id} className="flex flex-wrap items-center gap-x-2 gap-y-1">
        <Link href={`/keys/${key.id}`} className="font-medium wrap-anywhere hover:underline">
          {key.name}
        </Link>
        <ExpiryBadge apiKey={key} />
      </li>
    )),
    ...down.data.map((model) => (
      <li key={`down ${model.id}`} className="wrap-anywhere">
        <ModelLink model={model} /> <span className="text-soft">is not serving at the moment.</span>
      </li>
    )),
    ...retiringSoonest.map((model) => (
      <li key={model.id} className="min-w-0">
        <span className="flex flex-wrap items-center gap-x-2 gap-y-1">
          <ModelLink model={model} />
          <RetiringBadge model={model} />
        </span>
        <span className="text-soft wrap-anywhere">
          <RetirementSentence model={model} />
        </span>
      </li>
    )),
    ...[
      { list: down, state: 'down', words: 'more models do not serve at the moment' },
      { list: retiring, state: 'retiring', words: 'more models are retiring' },
    ]
      .filter(({ list }) => list.pagination.has_next)
      .map(({ list, state, words }) => (
        <li key={state}>
          <Link href={`/models?state=${state}`} className="font-medium hover:underline">
            {formatCount(list.pagination.total - list.data.length)} {words}
          </Link>
        </li>
      )),
  ];
  if (items.length === 0)
    return (
      <p className="text-sm text-faint">
        Nothing. No key expires within a week, no budget{budgets.funds === undefined && ' of yours'} is nearly used up,
        {budgets.funds !== undefined && ' nothing is owed,'} and no model is retiring or out of service.
      </p>
    );
  return (
    <>
      <ul className="grid gap-3 text-sm">{items.slice(0, shownMax)}</ul>
      {items.length > shownMax && (
        <details className="mt-3 text-sm">
          <summary className="inline-block text-soft hover:text-ink">
            {formatCount(items.length - shownMax)} more
          </summary>
          <ul className="mt-3 grid gap-3">{items.slice(shownMax)}</ul>
        </details>
      )}
    </>
  );
}

/** When something ends, for sorting; without a date it comes last. */
const endMs = (iso: string | null): number => (iso === null ? Number.MAX_SAFE_INTEGER : Date.parse(iso));

function ModelLink({ model }: { model: Model }) {
  return (
    <Link href={`/models/${encodeURIComponent(model.id)}`} className="font-medium wrap-anywhere hover:underline">
      {model.display_name}
    </Link>
  );
}
