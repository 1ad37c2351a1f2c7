import { create } from '@bufbuild/protobuf';
import { WithdrawRetirementResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { notFound } from '#shared/errors.ts';
import { changeRetirement } from '../catalog/change-catalog.ts';
import { requireModel } from '../db/model.repository.ts';
import { RetirementEntity } from '../db/retirement.entities.ts';
import { retirementFields, scheduleOf, standingRetirement } from '../db/retirement.repository.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';
import { checkWithdrawable } from '../domain/retirement-changes.ts';
import { adminRetirement } from '../retirements/admin-retirements.ts';
import { planWithdrawalMails } from '../retirements/plan-reminders.ts';

/** Withdrawing a second time changes nothing. */
export const withdrawRetirement =
  (deps: Pick<ModelsDeps, 'database' | 'feed' | 'clock' | 'onRetirementChange'>): ModelsRpc<'withdrawRetirement'> =>
  (request, context) =>
    changeRetirement(deps, context, async (em, now) => {
      const model = await requireModel(em, request.model);
      const row = await standingRetirement(em, model.id);
      if (row === null) {
        const last = await em.findOne(RetirementEntity, { modelId: model.id }, { orderBy: { id: 'desc' } });
        if (last === null) throw notFound('retirement');
        const retirement = await adminRetirement(em, last);
        return { answer: create(WithdrawRetirementResponseSchema, { retirement }), audit: null };
      }
      checkWithdrawable(model.name, scheduleOf(row), now.getTime());
      row.withdrawnAt = now;
      await em.flush();
      await planWithdrawalMails(em, row, now);
      return {
        answer: create(WithdrawRetirementResponseSchema, { retirement: await adminRetirement(em, row) }),
        audit: {
          type: 'model_retirement_withdrawn',
          target: { type: 'model', id: model.name },
          before: retirementFields(row),
        },
      };
    });
