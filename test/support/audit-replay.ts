import { expect } from 'vitest';
import type { TwoReplicas } from './two-replicas.ts';

// biome-ignore lint/suspicious/noExplicitAny: events of every type; the comparisons are the types.
type Json = any;

/** What these tell is not a field of their target. */
const others = ['model_granted', 'model_grant_revoked', 'email_change_requested', 'mail_link_shown'];

/**
 * Follows the audit trail of everyone: no event is missing in its chain, and each change begins with what the one before left, and changes
 * something. Returns what it says of everything at its end, by the type and the id of the target.
 */
export async function replayAudit(replicas: TwoReplicas, token: string): Promise<Map<string, Record<string, Json>>> {
  const states = new Map<string, Record<string, Json>>();
  const lengths = new Map<string | null, number>();
  for (const event of (await allEvents(replicas, token)).toSorted((one, other) => one.sequence - other.sequence)) {
    const { type, tenant_id: chain, sequence, target, changes } = event;
    expect(sequence).toBe((lengths.get(chain) ?? 0) + 1);
    lengths.set(chain, sequence);
    // How models were changed by an import, it does not tell.
    for (const name of changes?.after?.models ?? []) states.delete(`model ${name}`);
    if (changes === null || others.includes(type)) continue;
    const { before, after } = changes;
    const of = `${/retirement|sunset/.test(type) ? 'retirement' : target.type} ${target.id}`;
    const state = states.get(of) ?? {};
    const told = JSON.stringify(event);
    expect(before, told).not.toEqual(after);
    for (const [field, value] of Object.entries(before ?? {})) {
      if (field in state) expect({ [field]: value }, told).toEqual({ [field]: state[field] });
    }
    if (after === null) states.delete(of);
    else states.set(of, { ...state, ...after });
  }
  return states;
}

async function allEvents(replicas: TwoReplicas, token: string): Promise<Json[]> {
  const events: Json[] = [];
  for (let page = 1; ; page += 1) {
    const answer = await replicas.call('GET', `/api/v1/admin/audit-events?limit=100&page=${page}`, token);
    expect(answer.status, answer.text).toBe(200);
    events.push(...answer.json.data);
    if (!answer.json.pagination.has_next) return events;
  }
}
