import type { UsageFilter } from '#gen/modelgateway/usage/v1/scope_pb.ts';
import type { Subject } from '../domain/subject.ts';

/** Stands for the key of calls that sessions made. */
export const noKeyId = '00000000-0000-0000-0000-000000000000';

/** Collects the parameters of a statement as its text is written. */
export class Parameters {
  readonly values: unknown[] = [];

  add(value: unknown, type: string): string {
    this.values.push(value);
    return `$${this.values.length}::${type}`;
  }
}

/** The conditions on columns which events and roll-ups have in common: whose usage, and what it is narrowed to. */
export function narrowing(parameters: Parameters, subject: Subject, filter: UsageFilter | undefined): string {
  const conditions = [`tenant_id = ${parameters.add(subject.tenantId, 'uuid')}`];
  if (subject.userId !== null) conditions.push(`user_id = ${parameters.add(subject.userId, 'uuid')}`);
  if (filter?.model) conditions.push(`model = ${parameters.add(filter.model, 'text')}`);
  if (filter?.endpoint) conditions.push(`endpoint = ${parameters.add(filter.endpoint, 'text')}`);
  if (filter?.apiKeyId) conditions.push(`api_key_id = ${parameters.add(knownKeyId(filter.apiKeyId), 'uuid')}`);
  return conditions.join(' and ');
}

/** A key id that may stand in a query: nobody's key must not come out as the sessions. */
export const knownKeyId = (keyId: string): string =>
  keyId === noKeyId ? 'ffffffff-ffff-ffff-ffff-ffffffffffff' : keyId;
