import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { type ModelSettings, type ModelSettingsSchema, Visibility } from '#gen/modelgateway/models/v1/model_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { invalidValue } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { operationName } from '#shared/operations.ts';
import { isFitToShow, shownName } from '#shared/safe-text.ts';
import type { PublicName, WholeMessage } from '#shared/whole-message.ts';
import { ModelEntity, type ModelRow } from '../db/catalog.entities.ts';

type Setting = keyof WholeMessage<typeof ModelSettingsSchema>;

/** What settings change about a model; unset fields stay as they are. @throws INVALID_REQUEST for a name that is unfit to be shown. */
export function modelChanges({ displayName, ownedBy, operations, ...rest }: ModelSettings): Partial<ModelRow> {
  const changes: { [Field in Setting]: ModelRow[Field] | undefined } = {
    displayName: displayName === undefined ? undefined : shownName(displayName, 'display_name'),
    ownedBy: ownedBy === undefined ? undefined : shownName(ownedBy, 'owned_by'),
    operations: operations.length === 0 ? undefined : [...operations],
    contextWindow: rest.contextWindow,
    maxOutputTokens: rest.maxOutputTokens,
    visibility: rest.visibility === Visibility.UNSPECIFIED ? undefined : rest.visibility,
  };
  return Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined));
}

/** Adds a model under a name that is free. @throws INVALID_REQUEST when no model can have it. */
export function addModel(em: SqlEntityManager, name: string, settings: ModelSettings, now: Date): ModelRow {
  const fault = faultOfName(name);
  if (fault !== null) throw invalidValue('name', fault);
  const created = em.create(ModelEntity, {
    id: uuidv7(),
    name,
    displayName: name,
    ownedBy: 'system',
    operations: [Operation.CHAT_COMPLETIONS],
    visibility: Visibility.PUBLIC,
    createdAt: now,
    deletedAt: null,
    ...modelChanges(settings),
  });
  em.persist(created);
  return created;
}

const nameLengthMax = 255;

/** Why no model can have this name, for operators; null: one can. */
export function faultOfName(name: string): string | null {
  if (!isFitToShow(name))
    return 'a name needs visible characters, and may have no control characters or heaps of accents';
  if (name.length > nameLengthMax) return `\`${name.slice(0, 32)}…\` has more than ${nameLengthMax} characters`;
  // Names become part of paths, in which clients resolve dots as in file names; and GET /v1/models/deprecations is a list.
  if (name !== 'deprecations' && !/(^|\/)\.\.?(\/|$)/.test(name)) return null;
  return `\`${name}\` means something else in a URL path`;
}

/** A model's settings in audit events, in the public API's spelling. A change of anything else would count as none. */
export const modelFields = (row: ModelRow): Record<PublicName<Setting>, unknown> => ({
  display_name: row.displayName,
  owned_by: row.ownedBy,
  operations: row.operations.map(operationName),
  context_window: row.contextWindow || null,
  max_output_tokens: row.maxOutputTokens || null,
  visibility: row.visibility === Visibility.PRIVATE ? 'private' : 'public',
});
