import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { ModelEntity } from '../db/catalog.entities.ts';
import { RetirementEntity } from '../db/retirement.entities.ts';

/** Refuses to take a model away which users of a retiring one are told to go to. */
export async function refuseSuccessorOfOthers(em: SqlEntityManager, name: string, what: string): Promise<void> {
  const retirements = await em.find(RetirementEntity, { replacementModelName: name, withdrawnAt: null });
  const model = await em.findOne(ModelEntity, {
    id: { $in: retirements.map(({ modelId }) => modelId) },
    deletedAt: null,
  });
  if (model !== null) {
    throw gatewayError(
      ErrorReason.CONFLICT,
      `The model \`${name}\` cannot be ${what}: it is the successor of \`${model.name}\`.`,
    );
  }
}
