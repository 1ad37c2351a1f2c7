/*
 * The API scopes (service.md, Scopes). A scope is a bit, so that a check is one AND. The two retired scopes keep their names, because a key
 * stores its scopes as given, but grant the bit of their successor.
 */

export type KeyType = 'inference' | 'management';

const inferenceScopes = [
  'inference:chat',
  'inference:completions',
  'inference:embeddings',
  'inference:images',
  'inference:audio',
  'models:list',
  'models:retrieve',
  'jobs:stats_own',
  'jobs:read_own',
  'jobs:cancel_own',
] as const;

const managementScopes = [
  'usage:read_current',
  'usage:read_history',
  'usage:read_summary',
  'usage:read_report',
  'usage:read_breakdown',
  'billing:read_current',
  'billing:read_invoices',
  'profile:read',
  'rate_limits:read',
  'budgets:read_own',
  'budgets:update_own',
] as const;

/** Retired names and what each grants (service.md, Versioning). */
const retiredScopes = {
  'billing:read_cycles': 'billing:read_invoices',
  'billing:read_summary': 'billing:read_current',
} as const;

export type Scope = (typeof inferenceScopes)[number] | (typeof managementScopes)[number];
type StoredScope = Scope | keyof typeof retiredScopes;

const bits: ReadonlyMap<string, number> = new Map(
  [...inferenceScopes, ...managementScopes].map((scope, index) => [scope, 1 << index]),
);

/** The bit of one scope. */
export const scopeBit = (scope: Scope): number => bits.get(scope)!;

/** The bits granted by a key's stored scopes. Unknown names grant nothing. */
export function scopeBits(stored: readonly string[]): number {
  let mask = 0;
  for (const name of stored) {
    const current = name in retiredScopes ? retiredScopes[name as keyof typeof retiredScopes] : name;
    mask |= bits.get(current) ?? 0;
  }
  return mask;
}

/** The scopes that a key of this type may have, retired names included. */
export function allowedScopes(keyType: KeyType): readonly StoredScope[] {
  return keyType === 'inference'
    ? inferenceScopes
    : [...managementScopes, ...(Object.keys(retiredScopes) as StoredScope[])];
}

/** The scopes of a key for which none were named (decisions.md, Keys): a member's management key gets no tenant breakdown. */
export function defaultScopes(keyType: KeyType, mayReadBreakdown: boolean): readonly Scope[] {
  if (keyType === 'inference') return inferenceScopes;
  return managementScopes.filter((scope) => mayReadBreakdown || scope !== 'usage:read_breakdown');
}

/** The key type to which a scope belongs. */
export const keyTypeOfScope = (scope: Scope): KeyType =>
  (inferenceScopes as readonly string[]).includes(scope) ? 'inference' : 'management';
