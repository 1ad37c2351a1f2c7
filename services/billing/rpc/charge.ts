import type { UsageEvent } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { isUuid } from '#shared/ids.ts';
import { withPlainIds } from '#shared/plain-ids.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import { chargeBatch } from '../charging/charge-batch.ts';
import { refusalOf } from '../charging/usage-posting.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';

export const charge =
  ({ database, databaseNow, prices }: Pick<BillingDeps, 'database' | 'databaseNow' | 'prices'>): BillingRpc<'charge'> =>
  async (request, context) => {
    requireService(callerOf(context));
    const events = request.events.map(withPlainIds);
    const priced = events.filter(
      ({ usage, priceVersionId }) => (usage?.costNanoUsd ?? 0n) > 0n && isUuid(priceVersionId),
    );
    const rates = await prices.ratesOf(priced.map(({ priceVersionId }) => priceVersionId));

    const refused: { eventId: string; reason: string }[] = [];
    const chargeable: UsageEvent[] = [];
    for (const event of events) {
      const reason = refusalOf(event, (id) => rates.has(id));
      if (reason === null) chargeable.push(event);
      else refused.push({ eventId: event.id, reason });
    }
    if (chargeable.length === 0) return { charged: 0, duplicates: 0, refused };
    const charged = await sqlTransaction(database, (sql) =>
      chargeBatch(sql, chargeable, rates, () => databaseNow(sql)),
    );
    return { charged, duplicates: chargeable.length - charged, refused };
  };
