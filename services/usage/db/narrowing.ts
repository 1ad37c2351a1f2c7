import { isUuid } from '#shared/ids.ts';
import { noKeyId } from '../domain/roll-up.ts';
import type { Subject } from '../domain/subject.ts';

/** Collects the parameters of a statement as its text is written. */
export class Parameters {
  readonly values: unknown[] = [];

  add(value: unknown, type: string): string {
    this.values.push(value);
    return `$${this.values.length}::${type}`;
  }
}

/** What is counted of a subject's usage; empty fields narrow nothing. */
export type Filter = { model?: string; endpoint?: string; apiKeyId?: string };

/** The conditions on columns which events and roll-ups have in common: whose usage, and what it is narrowed to. */
export function narrowing(parameters: Parameters, subject: Subject, filter: Filter | undefined): string {
  const conditions = [`tenant_id = ${parameters.add(subject.tenantId, 'uuid')}`];
  if (subject.userId !== null) conditions.push(`user_id = ${parameters.add(subject.userId, 'uuid')}`);
  if (filter?.model) conditions.push(`model = ${parameters.add(filter.model, 'text')}`);
  if (filter?.endpoint) conditions.push(`endpoint = ${parameters.add(filter.endpoint, 'text')}`);
  if (filter?.apiKeyId) conditions.push(`api_key_id = ${parameters.add(queriedKeyId(filter.apiKeyId), 'uuid')}`);
  return conditions.join(' and ');
}

/** Stands for a key that nobody has. */
const nobodysKeyId = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** A key's id as it may stand in a query: what cannot be a key's is nobody's, and sessions are nobody's key either. */
const queriedKeyId = (keyId: string): string => (isUuid(keyId) && keyId !== noKeyId ? keyId : nobodysKeyId);
