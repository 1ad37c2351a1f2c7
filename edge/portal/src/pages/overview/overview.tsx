import { useGet, useIsAdmin } from '../../api/hooks.ts';
import { utcToday } from '../../api/server-clock.ts';
import type { CurrentUsage, KeyList, Model, Profile, UsageSummary, Wallet } from '../../api/types.ts';
import { formatCompact, formatCount, formatUsd, formatUsdExact } from '../../format/number.ts';
import { addDays, daysOfMonth } from '../../format/time.ts';
import { Link } from '../../router/link.tsx';
import { ButtonLink } from '../../ui/button.tsx';
import { Card, Tile, TileRow } from '../../ui/card.tsx';
import { CodeBlock } from '../../ui/code-block.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded, valueIn } from '../../ui/failure.tsx';
import { Page } from '../../ui/page.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { modelToTry } from '../models/model-to-try.ts';
import { snippet } from '../models/snippets.ts';
import { useModels } from '../models/use-models.ts';
import { usageOfDays } from '../usage/usage-of-days.ts';
import { Attention } from './attention.tsx';

export function Overview() {
  const isAdmin = useIsAdmin();
  const profile = useGet<Profile>('/profile');
  const usage = useGet<CurrentUsage>('/usage/current');
  const thisMonth = daysOfMonth(monthOf(utcToday()));
  const monthBefore = daysOfMonth(monthOf(addDays(thisMonth.start, -1)));
  const lastMonth = useGet<UsageSummary>('/usage/summary', {
    start_date: monthBefore.start,
    end_date: monthBefore.end,
  });
  const usageOfAll = useGet<CurrentUsage>('/usage/current', { scope: 'tenant' }, { enabled: isAdmin });
  // For how many there are.
  const keys = useGet<KeyList>('/api-keys', { limit: 1 });
  const models = useModels({ operation: 'chat_completions' });
  const wallet = useGet<Wallet>('/billing/wallet', undefined, { enabled: isAdmin });
  const name = profile.data?.first_name;
  return (
    <Page title={name ? `Hello, ${name}` : 'Overview'} description="Your own usage this month, in UTC.">
      <TileRow>
        <Tile
          label="Spent"
          value={valueIn(usage, (data) => formatUsd(data.cost_usd))}
          title={usage.data && formatUsdExact(usage.data.cost_usd)}
          detail={<>{valueIn(lastMonth, (data) => formatUsd(data.cost_usd))} last month</>}
        />
        <Tile label="Requests" value={valueIn(usage, (data) => <Compact count={data.requests} />)} />
        <Tile label="Tokens" value={valueIn(usage, (data) => <Compact count={data.total_tokens} />)} />
        {isAdmin ? (
          <Tile
            label="Credit left"
            value={valueIn(wallet, (data) => formatUsd(data.balance_usd))}
            detail={
              <Link href={usageOfDays(thisMonth, { scope: 'tenant' })} className="underline hover:text-ink">
                {valueIn(usageOfAll, (data) => formatUsd(data.cost_usd))} used by all this month
              </Link>
            }
          />
        ) : (
          <Tile label="Your keys" value={valueIn(keys, (data) => formatCount(data.quota.used))} />
        )}
      </TileRow>
      <div className="grid items-start gap-5 lg:grid-cols-2">
        <Card title="Needs attention">
          <Attention wallet={wallet} />
        </Card>
        <Card
          flush
          title="Models you used"
          action={
            <Link href={usageOfDays(thisMonth)} className="text-sm text-accent hover:underline">
              All usage
            </Link>
          }
        >
          <Loaded of={usage}>{({ models }) => <ModelsUsed models={models} />}</Loaded>
        </Card>
      </div>
      <QuickStart models={models.data?.data ?? []} hasNoKey={keys.data?.quota.used === 0} />
    </Page>
  );
}

const monthOf = (day: string): string => day.slice(0, 7);

function Compact({ count }: { count: number }) {
  return <span title={formatCount(count)}>{formatCompact(count)}</span>;
}

type ModelUsed = CurrentUsage['models'][number];

/** How many of the models that one used are listed, the dearest first. */
const listedMax = 6;

function ModelsUsed({ models }: { models: readonly ModelUsed[] }) {
  const others = models.slice(listedMax);
  return (
    <>
      <Table
        label="Models you used"
        rows={models.slice(0, listedMax)}
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
      {others.length > 0 && (
        <p className="border-t border-line px-5 py-2.5 text-xs text-faint">
          {formatCount(others.length)} more {others.length === 1 ? 'model' : 'models'} for{' '}
          {formatUsd(others.reduce((sum, { cost_usd }) => sum + cost_usd, 0))}
        </p>
      )}
    </>
  );
}

const columns: readonly Column<ModelUsed>[] = [
  { name: 'Model', cell: (row) => <span className="font-mono text-xs wrap-anywhere">{row.model}</span> },
  { name: 'Requests', end: true, cell: (row) => formatCount(row.requests) },
  { name: 'Cost', usd: (row) => row.cost_usd },
];

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
        code={snippet('curl', 'chat_completions', modelToTry(models)?.id ?? '<model>', window.location.origin)}
      />
    </Card>
  );
}
