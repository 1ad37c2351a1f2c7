import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { type ModelSettings, Visibility } from '#gen/modelgateway/models/v1/model_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { invalidRequest } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { operationName } from '#shared/operations.ts';
import { shownName } from '#shared/safe-text.ts';
import { ModelEntity, type ModelRow } from '../db/catalog.entities.ts';

/** What settings change about a model; unset fields stay as they are. @throws INVALID_REQUEST for a name that is unfit to be shown. */
export const modelChanges = (settings: ModelSettings) => ({
  ...(settings.displayName === undefined
    ? undefined
    : { displayName: shownName(settings.displayName, 'display_name') }),
  ...(settings.ownedBy === undefined ? undefined : { ownedBy: shownName(settings.ownedBy, 'owned_by') }),
  ...(settings.operations.length === 0 ? undefined : { operations: [...settings.operations] }),
  ...(settings.contextWindow === undefined ? undefined : { contextWindow: settings.contextWindow }),
  ...(settings.maxOutputTokens === undefined ? undefined : { maxOutputTokens: settings.maxOutputTokens }),
  ...(settings.visibility === Visibility.UNSPECIFIED ? undefined : { visibility: settings.visibility }),
});

/** Adds a model under a name that is free. @throws INVALID_REQUEST when no path can name it. */
export async function addModel(
  em: SqlEntityManager,
  name: string,
  settings: ModelSettings,
  now: Date,
): Promise<ModelRow> {
  requireOwnPath(name);
  const created = em.create(ModelEntity, {
    id: uuidv7(),
    name,
    displayName: name,
    ownedBy: 'system',
    operations: [Operation.CHAT_COMPLETIONS],
    visibility: Visibility.PUBLIC,
    createdAt: now,
    ...modelChanges(settings),
  });
  // The entities do not know of the foreign keys between the tables, so the model has to be inserted before what refers to it.
  await em.persist(created).flush();
  return created;
}

/** Names become part of paths, in which clients resolve dots as in file names; and GET /v1/models/deprecations is a list. */
function requireOwnPath(name: string): void {
  if (name !== 'deprecations' && !/(^|\/)\.\.?(\/|$)/.test(name)) return;
  throw invalidRequest(
    'name',
    `Invalid value for \`name\`: \`${name}\` means something else in a URL path.`,
    'invalid_value',
  );
}

/** A model's fields in audit events, in the public API's spelling. */
export const modelFields = (row: ModelRow) => ({
  display_name: row.displayName,
  owned_by: row.ownedBy,
  operations: row.operations.map(operationName),
  context_window: row.contextWindow || null,
  max_output_tokens: row.maxOutputTokens || null,
  visibility: row.visibility === Visibility.PRIVATE ? 'private' : 'public',
});
