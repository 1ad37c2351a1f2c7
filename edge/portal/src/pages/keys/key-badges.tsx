import type { ReactNode } from 'react';
import type { ApiKey, KeyAnalytics } from '../../api/types.ts';
import { formatUsd, formatUsdExact } from '../../format/number.ts';
import { daysUntil, formatUtc } from '../../format/time.ts';
import { useNow } from '../../shell/now.ts';
import { Badge, Status } from '../../ui/badge.tsx';

type StatusOfKey = NonNullable<KeyAnalytics['key_status']>;

const statuses = {
  active: <Status tone="good">Active</Status>,
  expired: <Status tone="neutral">Expired</Status>,
  revoked: <Status tone="danger">Revoked</Status>,
} as const satisfies Record<StatusOfKey, ReactNode>;

/** Active or Expired (service.md, API key: is_active), or Revoked by an operator. */
export const KeyStatus = ({ status }: { status: StatusOfKey }) => statuses[status];

/** The status of one's own key. */
export function statusOf({ revoked_at, is_active }: ApiKey): StatusOfKey {
  if (revoked_at !== null) return 'revoked';
  return is_active ? 'active' : 'expired';
}

/** Warns of keys that expire within 7 days, with the days left. */
export function ExpiryBadge({ apiKey }: { apiKey: ApiKey }) {
  const now = useNow();
  if (apiKey.expires_at === null || !apiKey.is_active) return null;
  const days = daysUntil(apiKey.expires_at, now);
  if (days > 7 || days < 0) return null;
  return (
    <Badge tone="warn" title={`Expires ${formatUtc(apiKey.expires_at)}`}>
      {days <= 1 ? 'Expires within a day' : `Expires in ${days} days`}
    </Badge>
  );
}

/** The only scope of a key, or how many it has, with all of them on hover. */
export const ScopesBadge = ({ scopes }: Pick<ApiKey, 'scopes'>) => (
  <Badge title={scopes.join('\n')}>{scopes.length === 1 ? scopes[0] : `${scopes.length} scopes`}</Badge>
);

/** What a key is restricted to: models, addresses and spend. */
export function RestrictionBadges({ apiKey, none = null }: { apiKey: ApiKey; none?: ReactNode }) {
  const models = apiKey.model_allowlist ?? [];
  const addresses = apiKey.ip_allowlist ?? [];
  const cap = apiKey.spend_cap_usd;
  if (models.length === 0 && addresses.length === 0 && cap === null) return none;
  return (
    <span className="inline-flex flex-wrap gap-1">
      {models.length > 0 && (
        <Badge title={models.join('\n')}>
          {models.length} {models.length === 1 ? 'model' : 'models'}
        </Badge>
      )}
      {addresses.length > 0 && (
        <Badge title={addresses.join('\n')}>
          {addresses.length} {addresses.length === 1 ? 'IP range' : 'IP ranges'}
        </Badge>
      )}
      {cap !== null && (
        <Badge
          tone={(apiKey.budget?.spent_today_usd ?? -1) >= cap ? 'danger' : 'neutral'}
          title={
            apiKey.budget?.spent_today_usd == null
              ? 'Daily spend cap'
              : `${formatUsd(apiKey.budget.spent_today_usd)} spent today; resets ${formatUtc(apiKey.budget.resets_at)}`
          }
        >
          {formatUsdExact(cap)} a day
        </Badge>
      )}
    </span>
  );
}
