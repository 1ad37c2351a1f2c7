import { useGet, useIsAdmin, useWholeList } from '../../api/hooks.ts';
import { currentMs } from '../../api/server-clock.ts';
import type { ApiKey, CurrentUsage, Model, Profile, Wallet } from '../../api/types.ts';
import { formatCompact, formatCount, formatUsd, formatUsdExact } from '../../format/number.ts';
import { dayMs } from '../../format/time.ts';
import { Link } from '../../router/link.tsx';
import { ButtonLink } from '../../ui/button.tsx';
import { Card, Tile, TileRow } from '../../ui/card.tsx';
import { CodeBlock } from '../../ui/code-block.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded, valueIn } from '../../ui/failure.tsx';
import { Page } from '../../ui/page.tsx';
import { Skeleton } from '../../ui/skeleton.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { ExpiryBadge } from '../keys/key-badges.tsx';
import { RetirementSentence, RetiringBadge } from '../models/model-badges.tsx';
import { chatModelToTry } from '../models/model-to-try.ts';
import { snippet } from '../models/snippets.ts';

export function Overview() {
  const isAdmin = useIsAdmin();
  const profile = useGet<Profile>('/profile');
  const usage = useGet<CurrentUsage>('/usage/current');
  const keys = useWholeList<ApiKey>('/api-keys');
  const models = useGet<{ data: Model[] }>('/models');
  const wallet = useGet<Wallet>('/billing/wallet', undefined, { enabled: isAdmin });
  const name = profile.data?.first_name;
  return (
    <Page title={name ? `Hello, ${name}` : 'Overview'} description="Your own usage this month, in UTC.">
      <TileRow>
        <Tile
          label="Spent"
          value={valueIn(usage, (data) => formatUsd(data.cost_usd))}
          title={usage.data && formatUsdExact(usage.data.cost_usd)}
        />
        <Tile label="Requests" value={valueIn(usage, (data) => <Compact count={data.requests} />)} />
        <Tile label="Tokens" value={valueIn(usage, (data) => <Compact count={data.total_tokens} />)} />
        {isAdmin ? (
          <Tile label="Credit left" value={valueIn(wallet, (data) => formatUsd(data.balance_usd))} />
        ) : (
          <Tile label="Your keys" value={valueIn(keys, (data) => formatCount(data.length))} />
        )}
      </TileRow>
      <div className="grid items-start gap-5 lg:grid-cols-2">
        <Card title="Needs attention">
          <Loaded of={keys} skeleton={<Skeleton className="h-16 w-full" />}>
            {(ownKeys) => (
              <Loaded of={models} skeleton={<Skeleton className="h-16 w-full" />}>
                {({ data }) => <Attention keys={ownKeys} models={data} />}
              </Loaded>
            )}
          </Loaded>
        </Card>
        <Card
          flush
          title="Models you used"
          action={
            <Link href="/usage" className="text-sm text-accent hover:underline">
              All usage
            </Link>
          }
        >
          <Loaded of={usage}>
            {(data) => (
              <Table
                label="Models you used"
                rows={data.models.slice(0, 6)}
                columns={columns}
                rowKey={(row) => row.model}
                empty={
                  <EmptyState
                    icon="chart"
                    title="Nothing used yet this month"
                    action={<ButtonLink href="/playground">Open the playground</ButtonLink>}
                  />
                }
              />
            )}
          </Loaded>
        </Card>
      </div>
      <QuickStart models={models.data?.data ?? []} hasNoKey={keys.data?.length === 0} />
    </Page>
  );
}

function Compact({ count }: { count: number }) {
  return <span title={formatCount(count)}>{formatCompact(count)}</span>;
}

const columns: readonly Column<CurrentUsage['models'][number]>[] = [
  { name: 'Model', cell: (row) => <span className="font-mono text-xs wrap-anywhere">{row.model}</span> },
  { name: 'Requests', end: true, cell: (row) => formatCount(row.requests) },
  { name: 'Cost', usd: (row) => row.cost_usd },
];

/** How many of the items that need attention are visible at once: a catalog may retire dozens of models. */
const shownMax = 6;

/** What needs attention, the most urgent first: keys about to expire, models out of service, models about to retire. */
function Attention({ keys, models }: { keys: readonly ApiKey[]; models: readonly Model[] }) {
  const soon = keys
    .filter((key) => key.is_active && key.expires_at !== null && Date.parse(key.expires_at) - currentMs() < 7 * dayMs)
    .sort((one, other) => endMs(one.expires_at) - endMs(other.expires_at));
  const down = models.filter((model) => !model.is_serviceable);
  const retiring = models
    .filter((model) => model.deprecated_at !== null)
    .sort((one, other) => endMs(one.sunset_at) - endMs(other.sunset_at));
  const items = [
    ...soon.map((key) => (
      <li key={key.id} className="flex flex-wrap items-center gap-x-2 gap-y-1">
        <Link href={`/keys/${key.id}`} className="font-medium wrap-anywhere hover:underline">
          {key.name}
        </Link>
        <ExpiryBadge apiKey={key} />
      </li>
    )),
    ...down.map((model) => (
      <li key={`down ${model.id}`} className="wrap-anywhere">
        <ModelLink model={model} /> <span className="text-soft">is not serving at the moment.</span>
      </li>
    )),
    ...retiring.map((model) => (
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
  ];
  if (items.length === 0)
    return (
      <p className="text-sm text-faint">
        Nothing. No key expires within a week, and no model is retiring or out of service.
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

function QuickStart({ models, hasNoKey }: { models: readonly Model[]; hasNoKey: boolean }) {
  return (
    <Card
      title="Quick start"
      description={
        hasNoKey
          ? 'Create a key, then change the base URL and key of any OpenAI client.'
          : 'Any OpenAI client works: change its base URL and key.'
      }
      action={
        <ButtonLink
          href={hasNoKey ? '/keys?create=1' : '/models'}
          look={hasNoKey ? 'primary' : 'secondary'}
          size="small"
        >
          {hasNoKey ? 'Create a key' : 'More snippets'}
        </ButtonLink>
      }
    >
      <CodeBlock
        label="A first call with curl"
        code={snippet('curl', 'chat_completions', chatModelToTry(models)?.id ?? '<model>', window.location.origin)}
      />
    </Card>
  );
}
