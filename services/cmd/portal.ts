import { buildPortalIfStale, portalDist } from '../../edge/portal/build.ts';

/** Builds the portal where its sources have changed, beside the rest of the start, and answers its folder. */
export async function builtPortal(): Promise<string> {
  await buildPortalIfStale();
  return portalDist;
}
