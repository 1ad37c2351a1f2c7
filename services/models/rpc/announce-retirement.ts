import { create } from '@bufbuild/protobuf';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import {
  type AnnounceRetirementRequest,
  AnnounceRetirementRequestSchema,
  AnnounceRetirementResponseSchema,
} from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { invalidRequest } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { shownName } from '#shared/safe-text.ts';
import { changeRetirement, oncePerKey } from '../catalog/change-catalog.ts';
import type { ModelRow } from '../db/catalog.entities.ts';
import { findModel, requireModel } from '../db/model.repository.ts';
import { RetirementEntity } from '../db/retirement.entities.ts';
import { retirementFields, scheduleOf, standingRetirement } from '../db/retirement.repository.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';
import { retirementState } from '../domain/retirement.ts';
import { announced, type SuccessorFacts } from '../domain/retirement-changes.ts';
import { adminRetirement } from '../retirements/admin-retirements.ts';
import { cancelWithdrawalMails, planReminders } from '../retirements/plan-reminders.ts';
import { isKnownToUsersOf } from '../retirements/promises.ts';

export const announceRetirement =
  (deps: Pick<ModelsDeps, 'database' | 'feed' | 'clock' | 'onRetirementChange'>): ModelsRpc<'announceRetirement'> =>
  (request, context) =>
    changeRetirement(
      deps,
      context,
      async (em, now) => {
        const model = await requireModel(em, request.model);
        const standing = await standingRetirement(em, model.id);
        const successor = requestedSuccessor(request);
        const schedule = announced(
          model.name,
          standing && scheduleOf(standing),
          { successor, sunsetAtMs: request.sunsetAt === undefined ? null : timestampMs(request.sunsetAt) },
          successor.kind === 'model' ? await successorFacts(em, model, successor.name, now.getTime()) : null,
          now.getTime(),
        );
        const row = em.create(RetirementEntity, {
          id: uuidv7(),
          modelId: model.id,
          deprecatedAt: now,
          sunsetAt: schedule.sunsetAtMs === null ? null : new Date(schedule.sunsetAtMs),
          replacementModelName: successor.kind === 'model' ? successor.name : null,
          retirementNote: successor.kind === 'note' ? successor.text : null,
          withdrawnAt: null,
          recallsMails: false,
        });
        await em.persist(row).flush();
        await cancelWithdrawalMails(em, model.id);
        if (row.sunsetAt !== null) await planReminders(em, row, now, true);
        return {
          answer: create(AnnounceRetirementResponseSchema, { retirement: await adminRetirement(em, row) }),
          audit: {
            type: 'model_retirement_announced',
            target: { type: 'model', id: model.name },
            after: retirementFields(row),
          },
        };
      },
      oncePerKey(AnnounceRetirementRequestSchema, AnnounceRetirementResponseSchema, request),
    );

function requestedSuccessor({ successor }: AnnounceRetirementRequest) {
  switch (successor.case) {
    case 'replacementModelName':
      return { kind: 'model', name: successor.value } as const;
    case 'retirementNote':
      return { kind: 'note', text: shownName(successor.value, 'retirement_note') } as const;
    default:
      throw invalidRequest(
        'replacement_model_name',
        'Give either a successor, or a note that explains why there is none.',
      );
  }
}

async function successorFacts(
  em: SqlEntityManager,
  model: ModelRow,
  name: string,
  nowMs: number,
): Promise<SuccessorFacts> {
  const successor = await findModel(em, name);
  if (successor === null) return null;
  const standing = await standingRetirement(em, successor.id);
  return {
    state: retirementState(standing && scheduleOf(standing), nowMs),
    knownToAllUsers: await isKnownToUsersOf(em, name, model),
  };
}
