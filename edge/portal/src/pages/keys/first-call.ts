import type { Scope } from '#shared/scopes.ts';
import type { ApiKey, Model } from '../../api/types.ts';
import { modelToTry } from '../models/model-to-try.ts';
import { snippet } from '../models/snippets.ts';

/** Operations that need no file, with the scope of each, the most telling first. */
const operations: readonly (readonly [Scope, string])[] = [
  ['inference:chat', 'chat_completions'],
  ['inference:completions', 'completions'],
  ['inference:embeddings', 'embeddings'],
  ['inference:images', 'images_generations'],
  ['inference:audio', 'audio_speech'],
];

/** The operations, of those that need no file, that a key with these scopes may call. */
export const operationsOf = (scopes: readonly string[]): readonly string[] =>
  operations.filter(([scope]) => scopes.includes(scope)).map(([, operation]) => operation);

/** What can be read with nothing but a range of days. */
const reads: readonly (readonly [Scope, (days: string) => string])[] = [
  ['models:list', () => '/v1/models'],
  ['jobs:read_own', () => '/api/v1/jobs'],
  ['jobs:stats_own', () => '/api/v1/jobs/stats'],
  ['usage:read_current', () => '/api/v1/usage/current'],
  ['usage:read_history', () => '/api/v1/usage/history'],
  ['usage:read_summary', (days) => `/api/v1/usage/summary?${days}`],
  ['usage:read_report', (days) => `/api/v1/usage/report?${days}`],
  ['usage:read_breakdown', () => '/api/v1/usage/tenant-breakdown'],
  ['billing:read_current', () => '/api/v1/plan/current'],
  ['billing:read_invoices', () => '/api/v1/billing/documents/invoices'],
  ['profile:read', () => '/api/v1/profile'],
  ['rate_limits:read', () => '/api/v1/rate-limits'],
  ['budgets:read_own', () => '/api/v1/profile/cost-limit'],
];

/** What is read for admins and owners alone, whatever the key's scopes. */
const adminScopes: readonly Scope[] = ['usage:read_breakdown', 'billing:read_invoices'];

/**
 * A first call of a key with curl, one that its scopes, its models and the role of its owner allow; it reads the secret from
 * MODEL_GATEWAY_KEY. Null if they allow nothing that can be tried without further ado. `today` is a day as the API takes it.
 */
export function firstCall(
  key: Pick<ApiKey, 'scopes' | 'model_allowlist'>,
  models: readonly Model[],
  origin: string,
  today: string,
  isAdmin: boolean,
): string | null {
  const allowed = key.model_allowlist ?? [];
  const usable = allowed.length === 0 ? models : models.filter(({ id }) => allowed.includes(id));
  for (const [scope, operation] of operations) {
    const model = modelToTry(usable.filter((one) => one.operations.includes(operation)));
    if (key.scopes.includes(scope) && model !== undefined) return snippet('curl', operation, model.id, origin);
  }
  const read = reads.find(([scope]) => key.scopes.includes(scope) && (isAdmin || !adminScopes.includes(scope)));
  if (read === undefined) return null;
  const path = read[1](`start_date=${today}&end_date=${today}`);
  return `curl '${origin}${path}' \\\n  -H "Authorization: Bearer $MODEL_GATEWAY_KEY"`;
}
