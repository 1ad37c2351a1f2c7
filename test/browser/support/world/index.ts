import type { TestGateway } from '../../../support/gateway.ts';
import { growCatalog } from './catalog.ts';
import { runJobs } from './jobs.ts';
import { settleMoney } from './money.ts';
import { invitePeople, ok, type People, tokenMailedTo } from './people.ts';
import { recordUsage } from './usage.ts';

const dayMs = 86_400_000;

/** A hostile name: harmless as text, but as markup it would run. */
export const hostileName = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>"'&`;

export type World = {
  people: People;
  /** The owner's key with usage, with restrictions and five days left. */
  keyId: string;
  restrictedKeyId: string;
  /** The admin's key, of the same name as the owner's. */
  teammatesKeyId: string;
  invoiceId: string;
  invoiceNumber: string;
  /** Of the invitation that nobody has accepted yet. */
  invitationToken: string;
  /** A finished job of the owner. */
  jobId: string;
  /** An organization that the operator sees suspended. */
  otherOrganizationId: string;
  model: string;
};

/** The number of days with usage before today, and of calls on each. */
export type WorldSize = { days: number; perDay: number };

/** An organization in the middle of its month, made only through the API and the RPCs that edges use. */
export async function makeWorld(gateway: TestGateway, { days, perDay }: WorldSize): Promise<World> {
  const people = await invitePeople(gateway);
  const { owner, admin, member, operator, tenantId } = people;
  const priceIds = await growCatalog(gateway, operator.token, tenantId);

  const create = (token: string, body: object) => ok(gateway, 'POST', '/api-keys', token, body);
  const checkout = await create(owner.token, { name: 'Checkout production', spend_cap_usd: 25 });
  const nightly = await create(owner.token, {
    name: 'Nightly evaluation',
    model_allowlist: ['acme/ember-70b'],
    ip_allowlist: ['10.0.0.0/8', '2001:db8::/32'],
    expires_at: new Date(Date.now() + 4.5 * dayMs).toISOString(),
  });
  await create(owner.token, { name: hostileName });
  // Already expired when the world is made.
  await create(owner.token, { name: 'Old laptop', expires_at: new Date(Date.now() + 1_000).toISOString() });
  await create(owner.token, {
    name: 'Cost dashboard',
    key_type: 'management',
    scopes: ['usage:read_report', 'billing:read_current'],
  });
  const teammates = await create(admin.token, { name: 'Checkout production', spend_cap_usd: 25 });
  await create(admin.token, { name: 'Load test' });
  await create(member.token, { name: 'First steps' });
  await ok(gateway, 'POST', '/invitations', owner.token, { email: 'new.colleague@example.com', role: 'member' });
  const invitationToken = await tokenMailedTo(gateway, operator.token, 'new.colleague@example.com');
  const other = await ok(gateway, 'POST', '/admin/organizations', operator.token, {
    name: 'Contoso Labs',
    owner_email: 'somebody@contoso.example',
  });
  // Without a name: the organization does not exist yet.
  await ok(gateway, 'POST', '/admin/organizations', operator.token, { owner_email: 'founder@adatum.example' });
  const otherOrganizationId: string = other.organization.id;
  await ok(gateway, 'POST', `/admin/organizations/${otherOrganizationId}/suspend`, operator.token, {
    reason: 'Invoice overdue by 60 days',
  });

  const keys = { ownerKeyId: checkout.id, otherKeyId: nightly.id };
  const costUsd = await recordUsage(gateway, people, priceIds, keys, { days, perDay });
  const { invoiceId, invoiceNumber } = await settleMoney(gateway, people, costUsd);
  return {
    people,
    invitationToken,
    keyId: checkout.id,
    restrictedKeyId: nightly.id,
    teammatesKeyId: teammates.id,
    invoiceId,
    invoiceNumber,
    jobId: await runJobs(gateway, owner),
    otherOrganizationId,
    model: 'acme/ember-2',
  };
}
