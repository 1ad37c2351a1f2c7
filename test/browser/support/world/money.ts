import { databaseNow } from '#shared/db/database-now.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { billingEntities } from '../../../../services/billing/db/entities.ts';
import { finalizeInvoices } from '../../../../services/billing/workers/finalize-invoices.ts';
import type { TestGateway } from '../../../support/gateway.ts';
import { silentLogger } from '../../../support/silent-logger.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { ok, type People } from './people.ts';

/** Makes invoices for past months from usage, one of them paid; then adds credit, a commitment and limits. */
export async function settleMoney(
  gateway: TestGateway,
  people: People,
  costUsd: number,
): Promise<{ invoiceId: string; invoiceNumber: string }> {
  const { owner, operator, tenantId } = people;
  const organization = `/admin/organizations/${tenantId}`;
  await allCharged(gateway, owner.token, costUsd);
  await finalizePastMonths(gateway);
  const { data } = await ok(gateway, 'GET', '/billing/documents/invoices?status=finalized', owner.token);
  await ok(gateway, 'POST', `${organization}/invoices/${data[1].id}/pay`, operator.token, {});
  const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
  const credits = `${organization}/credits`;
  await ok(gateway, 'POST', credits, operator.token, {
    amount_usd: 100,
    source: 'purchase',
    description: 'Card payment',
  });
  await ok(gateway, 'POST', credits, operator.token, {
    amount_usd: 25,
    expires_at: inDays(40),
    description: 'Welcome',
  });
  await ok(gateway, 'POST', `${organization}/commitments`, operator.token, {
    amount_usd: 500,
    period_start: inDays(-40),
    period_end: inDays(325),
  });
  await ok(gateway, 'POST', '/admin/coupons', operator.token, {
    code: 'WELCOME25',
    amount_usd: 25,
    redemptions_max: 100,
    credit_lifetime_days: 90,
  });
  await ok(gateway, 'PUT', '/profile/cost-limit', owner.token, { limit_usd: 50 });
  return { invoiceId: data[0].id, invoiceNumber: data[0].number };
}

/** Usage passes events on to Billing shortly after they were recorded; after that the invoices add up to the usage. */
async function allCharged(gateway: TestGateway, ownerToken: string, costUsd: number): Promise<void> {
  const charged = async (): Promise<number> => {
    const { data } = await ok(gateway, 'GET', '/billing/documents/invoices?limit=100', ownerToken);
    return data.reduce((sum: number, invoice: { subtotal_usd: number }) => sum + invoice.subtotal_usd, 0);
  };
  const description = `charges of ${costUsd} USD`;
  await waitFor(async () => (await charged()) > costUsd - 1e-6, { description, timeoutMs: 30_000, intervalMs: 50 });
}

/** Billing's worker runs every five minutes; here it runs at once. */
export async function finalizePastMonths({ env }: TestGateway): Promise<void> {
  const database = await openServiceDatabase({
    service: 'billing',
    connection: env.databaseUrl!,
    entities: billingEntities,
    logger: silentLogger,
  });
  try {
    await finalizeInvoices({ database, databaseNow, logger: silentLogger });
  } finally {
    await database.close();
  }
}
