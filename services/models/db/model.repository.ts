import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { ModelEntity, type ModelRow } from './catalog.entities.ts';

export const findModel = (em: SqlEntityManager, name: string): Promise<ModelRow | null> =>
  em.findOne(ModelEntity, { name, deletedAt: null });

/** The model of a name. @throws MODEL_NOT_FOUND naming the field. */
export async function requireModel(em: SqlEntityManager, name: string): Promise<ModelRow> {
  const model = await findModel(em, name);
  if (model !== null) return model;
  throw gatewayError(ErrorReason.MODEL_NOT_FOUND, `There is no model \`${name}\`.`, { param: 'model' });
}
