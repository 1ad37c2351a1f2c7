import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { Visibility } from '#gen/modelgateway/models/v1/model_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import type { ModelRow } from '../db/catalog.entities.ts';

/** Whether a successor of `model` exists for everybody for whom `model` does. */
const isKnown = (name: string) => `exists (
  select from models successor where successor.name = ${name} and successor.deleted_at is null and (
    successor.visibility = ${Visibility.PUBLIC}
    or model.visibility <> ${Visibility.PUBLIC} and not exists (
      select tenant_id from grants where model_id = model.id
      except select tenant_id from grants where model_id = successor.id)))`;

/** Whether everybody who may use `model` may know of the successor as well: its name goes out to all of them. */
export async function isKnownToUsersOf(em: SqlEntityManager, successor: string, model: ModelRow): Promise<boolean> {
  const [found] = await em.execute(`select ${isKnown('?')} as known from models model where model.id = ?`, [
    successor,
    model.id,
  ]);
  return found!.known;
}

/** Models that retire in favour of one which some of their users cannot know of, with its name. */
export type UnknownSuccessors = ReadonlyMap<string, string>;

export async function unknownSuccessors(em: SqlEntityManager): Promise<UnknownSuccessors> {
  const rows = await em.execute(
    `select model.name, replacement_model_name as successor from retirements join models model on model.id = model_id
     where withdrawn_at is null and model.deleted_at is null and not ${isKnown('replacement_model_name')}
       and replacement_model_name is not null
     order by model.name`,
  );
  return new Map(rows.map(({ name, successor }) => [name, successor]));
}

/** Refuses a change of the catalog behind which users of a retiring model are told to go to one that does not exist for them. */
export async function requireKnownSuccessors(em: SqlEntityManager, before: UnknownSuccessors): Promise<void> {
  for (const [model, successor] of await unknownSuccessors(em)) {
    if (before.has(model)) continue;
    throw gatewayError(
      ErrorReason.CONFLICT,
      `\`${successor}\` is the successor of \`${model}\`: it has to exist for everybody for whom \`${model}\` does.`,
    );
  }
}
