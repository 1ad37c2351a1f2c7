import type { Scope } from '#shared/scopes.ts';

/** What each scope of service.md allows. A scope without words does not compile. Retired names are not offered, but keys that have one keep it. */
const words: Readonly<Record<Scope, string>> = {
  'inference:chat': 'Chat completions, streamed or not',
  'inference:completions': 'Text completions',
  'inference:embeddings': 'Embeddings',
  'inference:images': 'Image generation',
  'inference:audio': 'Transcription, translation, speech and the realtime socket',
  'models:list': 'List models and announced retirements',
  'models:retrieve': 'Look up one model',
  'jobs:stats_own': 'Count own jobs',
  'jobs:read_own': 'Read own jobs and their results',
  'jobs:cancel_own': 'Cancel own jobs',
  'usage:read_current': 'This month so far',
  'usage:read_history': 'Single requests',
  'usage:read_summary': 'Totals over a range',
  'usage:read_report': 'Reports over time, and analytics of a key',
  'usage:read_breakdown': 'Usage of each user in the organization',
  'billing:read_current': 'Plan; wallet and commitment for admins and owners',
  'billing:read_invoices': 'Invoices and transactions, for admins and owners',
  'profile:read': 'Own profile',
  'rate_limits:read': 'Rate limits and what is left of them',
  'budgets:read_own': 'Personal limit and pay-as-you-go cap',
  'budgets:update_own': 'Change the personal limit; the cap for admins and owners',
};

type Subject = Scope extends `${infer Subject}:${string}` ? Subject : never;

/** The group of each scope, by the part before its colon. */
const groups: Readonly<Record<Subject, string>> = {
  inference: 'Inference',
  models: 'Models',
  jobs: 'Background jobs',
  usage: 'Usage',
  billing: 'Billing',
  profile: 'Account',
  rate_limits: 'Account',
  budgets: 'Account',
};

/** Scopes by the names of their groups. */
export const grouped = (scopes: readonly Scope[]): ReadonlyMap<string, readonly Scope[]> =>
  Map.groupBy(scopes, (scope) => groups[scope.split(':', 1)[0] as Subject]);

/** What a scope allows. */
export const allows = (scope: Scope): string => words[scope];
