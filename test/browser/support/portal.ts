import { buildPortalIfStale, portalDist } from '../../../edge/portal/build.ts';
import type { Credentials } from './browser.ts';
import { type Fixture, startFixture } from './fixture/server.ts';

const password = 'Correct-horse-1';

/** One user per role, as the portal under test knows them. */
export const users = {
  owner: { email: 'owner@example.com', password },
  admin: { email: 'admin@example.com', password },
  member: { email: 'member@example.com', password },
  operator: { email: 'operator@example.com', password },
} as const satisfies Record<string, Credentials>;

/** Builds the portal when its sources changed, and serves it with the fixture's API. */
export async function startPortal(): Promise<Fixture> {
  await buildPortalIfStale();
  return startFixture(portalDist);
}

/** The ids of things which the owner sees, for addresses of pages. */
export function pageIdsOf({ state }: Fixture) {
  const owner = state.users.find(({ email }) => email === users.owner.email)!;
  return {
    keyId: state.keys.find(({ user_id }) => user_id === owner.id)!.id as string,
    invoiceId: state.invoices[1]!.id as string,
    jobId: state.jobs[2]!.id as string,
    organizationId: state.organizations[1]!.id as string,
    model: 'acme/ember-2',
  };
}
