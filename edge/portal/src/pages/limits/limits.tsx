import { useGet, useIsAdmin } from '../../api/hooks.ts';
import type { RateLimits, RateLimitValues } from '../../api/types.ts';
import { formatCount } from '../../format/number.ts';
import { Card } from '../../ui/card.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Meter } from '../../ui/meter.tsx';
import { Page } from '../../ui/page.tsx';
import { Skeleton } from '../../ui/skeleton.tsx';
import { BudgetCard } from './budget-card.tsx';

const refreshMs = 5000;

const kinds: readonly (readonly [keyof RateLimitValues, string])[] = [
  ['requests_per_minute', 'Requests per minute'],
  ['tokens_per_minute', 'Tokens per minute'],
  ['concurrent_requests', 'Concurrent requests'],
];

const meters = 'grid gap-5 sm:grid-cols-3';

export function Limits() {
  const isAdmin = useIsAdmin();
  const limits = useGet<RateLimits>('/rate-limits', undefined, { refetchIntervalMs: refreshMs });
  return (
    <Page title="Limits" description="How fast you may call, and how much you may spend. The strictest limit applies.">
      <Card
        title="Rate limits"
        description="For your session, which the playground uses. Each key has the same limits to itself, unless it was given its own."
      >
        <Loaded
          of={limits}
          skeleton={
            <div className={meters}>
              {kinds.map(([name]) => (
                <Skeleton key={name} className="h-13 w-full" />
              ))}
            </div>
          }
        >
          {(data) => (
            <div className={meters}>
              {kinds.map(([name, label]) => {
                const limit = data.limits[name];
                const left = data.remaining[name] ?? limit;
                return (
                  <Meter
                    key={name}
                    label={label}
                    value={limit - left}
                    max={limit}
                    text={formatCount(limit)}
                    detail={`${formatCount(left)} left now`}
                  />
                );
              })}
            </div>
          )}
        </Loaded>
      </Card>
      <div className="grid items-start gap-5 lg:grid-cols-2">
        <BudgetCard
          title="Personal daily limit"
          description="Across all your keys and sessions, per UTC day."
          path="/profile/cost-limit"
          editable
        />
        <BudgetCard
          title="Pay-as-you-go cap"
          description={
            isAdmin
              ? 'For the whole organization, per UTC month.'
              : 'For the whole organization, per UTC month. Admins and owners can change it.'
          }
          path="/billing/payg-spend-cap"
          editable={isAdmin}
        />
      </div>
    </Page>
  );
}
