import type { KeyType } from '../../api/types.ts';

type ScopeGroup = { name: string; scopes: readonly { name: string; does: string; adminOnly?: boolean }[] };

/** The scopes of service.md (Scopes), in words. Retired names are not offered, but keys that have one keep it. */
export const scopeGroups: Readonly<Record<KeyType, readonly ScopeGroup[]>> = {
  inference: [
    {
      name: 'Inference',
      scopes: [
        { name: 'inference:chat', does: 'Chat completions, streamed or not' },
        { name: 'inference:completions', does: 'Text completions' },
        { name: 'inference:embeddings', does: 'Embeddings' },
        { name: 'inference:images', does: 'Image generation' },
        { name: 'inference:audio', does: 'Transcription, translation, speech and the realtime socket' },
      ],
    },
    {
      name: 'Models',
      scopes: [
        { name: 'models:list', does: 'List models and announced retirements' },
        { name: 'models:retrieve', does: 'Look up one model' },
      ],
    },
    {
      name: 'Background jobs',
      scopes: [
        { name: 'jobs:read_own', does: 'Read own jobs and their results' },
        { name: 'jobs:stats_own', does: 'Count own jobs' },
        { name: 'jobs:cancel_own', does: 'Cancel own jobs' },
      ],
    },
  ],
  management: [
    {
      name: 'Usage',
      scopes: [
        { name: 'usage:read_current', does: 'This month so far' },
        { name: 'usage:read_history', does: 'Single requests' },
        { name: 'usage:read_summary', does: 'Totals over a range' },
        { name: 'usage:read_report', does: 'Reports over time, and analytics of a key' },
        { name: 'usage:read_breakdown', does: 'Usage of each user in the organization', adminOnly: true },
      ],
    },
    {
      name: 'Billing',
      scopes: [
        { name: 'billing:read_current', does: 'Plan; wallet and commitment for admins and owners' },
        { name: 'billing:read_invoices', does: 'Invoices and transactions, for admins and owners' },
      ],
    },
    {
      name: 'Account',
      scopes: [
        { name: 'profile:read', does: 'Own profile' },
        { name: 'rate_limits:read', does: 'Rate limits and what is left of them' },
        { name: 'budgets:read_own', does: 'Personal limit and pay-as-you-go cap' },
        { name: 'budgets:update_own', does: 'Change the personal limit; the cap for admins and owners' },
      ],
    },
  ],
};

/** The scopes that a new key starts with: all that its owner may use. */
export function defaultScopes(type: KeyType, isAdmin: boolean): string[] {
  return scopeGroups[type].flatMap((group) =>
    group.scopes.filter(({ adminOnly }) => isAdmin || adminOnly !== true).map(({ name }) => name),
  );
}
