import { timestampDate, timestampMs } from '@bufbuild/protobuf/wkt';
import { longTransaction } from '#shared/db/long-transaction.ts';
import { firstIdAt } from '#shared/ids.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { measuresMessage, type Sums } from '../db/sums.ts';
import type { UsageDeps, UsageRpc } from '../deps.ts';

/** Roll-ups know no prices, so the events are read: only of organizations that used the model, and only of the time in question. */
export const adminGetPriceCharges =
  ({ database, machineClock }: Pick<UsageDeps, 'database' | 'machineClock'>): UsageRpc<'adminGetPriceCharges'> =>
  async ({ model, priceId, since, until }, context) => {
    operatorCaller(context);
    const untilMs = until === undefined ? machineClock.now() + dayMs : timestampMs(until);
    const sums = {
      // last_used_at is the start of a quarter hour, and the use may have been at its end.
      text: `
        select tenant_id, count(*) as requests, count(*) filter (where success) as successful_requests,
          sum(input_tokens)::bigint as input_tokens, sum(cached_input_tokens)::bigint as cached_input_tokens,
          sum(output_tokens)::bigint as output_tokens, sum(images)::bigint as images, sum(audio_ms)::bigint as audio_ms,
          sum(characters)::bigint as characters, sum(latency_ms)::bigint as duration_ms,
          sum(cost_nano_usd)::bigint as cost_nano_usd
        from events
        where tenant_id in (
            select tenant_id from model_users where model = $1 and last_used_at > $2::timestamptz - interval '15 minutes')
          and id >= $3 and id < $4 and price_version_id = $5
        group by tenant_id order by cost_nano_usd desc`,
      values: [model, timestampDate(since!), firstIdAt(timestampMs(since!)), firstIdAt(untilMs), priceId],
    };
    const { signal } = context;
    const { rows } = await longTransaction(database, { statementTimeoutMs, signal }, (sql) =>
      sql.query<Sums & { tenant_id: string }>(sums),
    );
    return { organizations: rows.map((row) => ({ tenantId: row.tenant_id, measures: measuresMessage(row) })) };
  };

/** Calls may be dated by a machine whose clock is ahead. */
const dayMs = 86_400_000;

/** How long the events may be read, in milliseconds: at least those of two days, of all who use the model. */
const statementTimeoutMs = 3_600_000;
