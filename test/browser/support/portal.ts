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
