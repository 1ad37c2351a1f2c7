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

/** Whether everybody who may use `model` may know of the successor too: its name is sent to all of them. */
export async function isKnownToUsersOf(em: SqlEntityManager, successor: string, model: ModelRow): Promise<boolean> {
  const [found] = await em.execute(`select ${isKnown('?')} as known from models model where model.id = ?`, [
    successor,
    model.id,
  ]);
  return found!.known;
}

/** What users were told about a model that retires or has retired: for whom it exists, and what comes after it. */
type Told = { model: string; successor: string | null; isPublic: boolean; isSuccessorKnown: boolean };

/** By the model's name. */
type Promises = ReadonlyMap<string, Told>;

/** What users were last told. Models whose retirement stands cannot be deleted. */
export async function standingPromises(em: SqlEntityManager): Promise<Promises> {
  const rows = await em.execute<Told[]>(
    `select model.name as model, replacement_model_name as successor,
       model.visibility = ${Visibility.PUBLIC} as "isPublic",
       replacement_model_name is null or ${isKnown('replacement_model_name')} as "isSuccessorKnown"
     from retirements join models model on model.id = model_id
     where withdrawn_at is null order by model.name`,
  );
  return new Map(rows.map((told) => [told.model, told]));
}

/**
 * Refuses a change of the catalog that breaks a promise: users of a retiring model would be sent to one that does not exist for them, or
 * told that their model never existed.
 */
export async function keepPromises(em: SqlEntityManager, before: Promises): Promise<void> {
  for (const { model, successor, isPublic, isSuccessorKnown } of (await standingPromises(em)).values()) {
    const told = before.get(model);
    if (!isSuccessorKnown && told?.isSuccessorKnown !== false) {
      throw conflict(
        `\`${successor}\` is the successor of \`${model}\`: everybody who may use \`${model}\` must be able to use it.`,
      );
    }
    if (!isPublic && told?.isPublic === true) {
      throw conflict(`The retirement of \`${model}\` was announced to everybody, so it cannot become private.`);
    }
  }
}

const conflict = (text: string) => gatewayError(ErrorReason.CONFLICT, text);
