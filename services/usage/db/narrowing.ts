import { MAX } from 'uuid';
import { isUuid } from '#shared/ids.ts';
import { noKeyId } from '../domain/roll-up.ts';
import type { Subject } from '../domain/subject.ts';

/** Collects the parameters of a statement while its text is written. */
export class Parameters {
  readonly values: unknown[] = [];

  add(value: unknown, type: string): string {
    this.values.push(value);
    return `$${this.values.length}::${type}`;
  }
}

/** What is counted of a subject's usage; empty fields do not narrow it. */
export type Filter = { model?: string; endpoint?: string; apiKeyId?: string; userId?: string };

/** The conditions on columns common to events and roll-ups: whose usage, everybody's if null, and what it is narrowed to. */
export function narrowing(parameters: Parameters, subject: Subject | null, filter: Filter | undefined): string {
  const conditions: string[] = [];
  if (subject) conditions.push(`tenant_id = ${parameters.add(subject.tenantId, 'uuid')}`);
  if (subject && subject.userId !== null) conditions.push(`user_id = ${parameters.add(subject.userId, 'uuid')}`);
  if (filter?.userId) conditions.push(`user_id = ${parameters.add(filter.userId, 'uuid')}`);
  if (filter?.model) conditions.push(`model = ${parameters.add(filter.model, 'text')}`);
  if (filter?.endpoint) conditions.push(`endpoint = ${parameters.add(filter.endpoint, 'text')}`);
  if (filter?.apiKeyId) conditions.push(`api_key_id = ${parameters.add(queriedKeyId(filter.apiKeyId), 'uuid')}`);
  return conditions.join(' and ') || 'true';
}

/** A key's id for a query: anything that cannot be a key's id becomes that of a key that cannot exist, and so does that of sessions. */
const queriedKeyId = (keyId: string): string => (isUuid(keyId) && keyId !== noKeyId ? keyId : MAX);
