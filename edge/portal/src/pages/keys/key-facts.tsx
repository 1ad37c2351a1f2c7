import type { ApiKey } from '../../api/types.ts';
import { formatCount, formatUsd, formatUsdExact } from '../../format/number.ts';
import { Badge } from '../../ui/badge.tsx';
import { Card, Facts } from '../../ui/card.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { Time } from '../../ui/time.tsx';

/** When a key was made and used, and what it may do. */
export function KeyFacts({ apiKey }: { apiKey: ApiKey }) {
  return (
    <Card>
      <div className="grid gap-x-10 gap-y-3 lg:grid-cols-2">
        <Facts
          facts={[
            [
              'Type',
              <span key="type" className="capitalize">
                {apiKey.key_type}
              </span>,
            ],
            ['Created', <Time key="created" value={apiKey.created_at} />],
            ...(apiKey.rotated_at === null
              ? []
              : [['Rotated', <Time key="rotated" value={apiKey.rotated_at} />] as const]),
            apiKey.revoked_at === null
              ? ['Expires', <Time key="expires" value={apiKey.expires_at} none="Never" />]
              : ['Revoked', <Time key="revoked" value={apiKey.revoked_at} />],
            ['Last used', <Time key="used" value={apiKey.last_used_at} relative none="Never" />],
            ['Uses', formatCount(apiKey.usage_count)],
            [
              'Id',
              <span key="id" className="flex flex-wrap items-center gap-2">
                <code className="font-mono text-xs wrap-anywhere">{apiKey.id}</code>
                <CopyButton text={apiKey.id} />
              </span>,
            ],
          ]}
        />
        <Facts
          facts={[
            ...(apiKey.key_type === 'inference'
              ? ([['Models', <Allowed key="models" list={apiKey.model_allowlist} all="All" />]] as const)
              : []),
            ['Addresses', <Allowed key="addresses" list={apiKey.ip_allowlist} all="Any" />],
            ['Daily cap', <DailyCap key="cap" apiKey={apiKey} />],
            [
              'Scopes',
              <span key="scopes" className="flex flex-wrap gap-1">
                {apiKey.scopes.map((scope) => (
                  <Badge key={scope} wraps>
                    {scope}
                  </Badge>
                ))}
              </span>,
            ],
          ]}
        />
      </div>
    </Card>
  );
}

/** How many entries of an allowlist are visible at once: it may have a thousand. */
const shownMax = 6;

/** An allowlist; one without entries allows `all`. */
function Allowed({ list, all }: { list: readonly string[] | null; all: string }) {
  if (list === null || list.length === 0) return all;
  const more = list.length - shownMax;
  return (
    <>
      <Entries list={list.slice(0, shownMax)} />
      {more > 0 && (
        <details>
          <summary className="inline-block text-soft hover:text-ink">{formatCount(more)} more</summary>
          <Entries list={list.slice(shownMax)} />
        </details>
      )}
    </>
  );
}

function Entries({ list }: { list: readonly string[] }) {
  return (
    <ul className="font-mono text-xs leading-5">
      {list.map((entry) => (
        <li key={entry}>{entry}</li>
      ))}
    </ul>
  );
}

/** What a key may spend in a UTC day, and how much of that it has, unless Billing is away. */
function DailyCap({ apiKey: { spend_cap_usd: cap, budget } }: { apiKey: ApiKey }) {
  if (cap === null) return 'None';
  const spent = budget?.spent_today_usd ?? null;
  return (
    <>
      <span className="block">{formatUsdExact(cap)} a day</span>
      {spent !== null && (
        <span className={spent >= cap ? 'text-danger' : 'text-soft'}>
          {formatUsd(spent)} spent today, {spent >= cap ? 'nothing' : formatUsd(cap - spent)} left · resets{' '}
          <Time value={budget!.resets_at} relative />
        </span>
      )}
    </>
  );
}
