import type { Client } from '@connectrpc/connect';
import type { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Logger } from '#shared/logger.ts';
import { callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import { type EventRow, eventMessage } from '../db/event-rows.ts';

export type ChargeDeps = {
  database: Pick<ServiceDatabase, 'query'>;
  billing: Pick<Client<typeof BillingService>, 'charge'>;
  logger: Logger;
};

export type ChargeWorker = {
  /** Hands on all that waits; rejects when Billing or the database is out of reach, and nothing is lost. */
  drain(): Promise<void>;
  close(): Promise<void>;
};

const everyMs = 200;
const eventsMax = 1_000;
const timeoutMs = 10_000;

/**
 * Hands events on to Billing, oldest first. An event leaves the outbox only when Billing has answered for it; should the answer be
 * lost it is sent again, and Billing charges each id once. Several workers on one outbox do no harm.
 */
export function startChargeWorker({ database, billing, logger }: ChargeDeps): ChargeWorker {
  const options = { contextValues: callerContext(serviceCaller('usage')), timeoutMs };
  let running: Promise<void> | null = null;

  async function drainOnce(): Promise<void> {
    for (;;) {
      const { rows } = await database.query<EventRow>({
        name: 'charges-next',
        text: `select events.* from (select tenant_id, event_id from events_to_charge order by event_id limit ${eventsMax}) as due
          join events on events.tenant_id = due.tenant_id and events.id = due.event_id`,
      });
      if (rows.length === 0) return;
      const { refused } = await billing.charge({ events: rows.map(eventMessage) }, options);
      for (const { eventId, reason } of refused) {
        const event = rows.find(({ id }) => id === eventId);
        logger.error({ eventId, reason, tenantId: event?.tenant_id, event }, 'billing refused an event for good');
      }
      await database.query({
        name: 'charges-done',
        text: 'delete from events_to_charge where event_id = any($1::uuid[])',
        values: [rows.map(({ id }) => id)],
      });
    }
  }

  const drain = (): Promise<void> => {
    running ??= drainOnce().finally(() => {
      running = null;
    });
    return running;
  };
  const timer = setInterval(() => {
    drain().catch((err) => logger.warn({ err }, 'events could not be handed on to billing; they wait in the outbox'));
  }, everyMs).unref();

  return {
    drain,
    async close() {
      clearInterval(timer);
      await running?.catch(() => {});
    },
  };
}
