import { create } from '@bufbuild/protobuf';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { SetSunsetDateResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { changedFields } from '#shared/changed-fields.ts';
import { notFound } from '#shared/errors.ts';
import { changeRetirement } from '../catalog/change-catalog.ts';
import { requireModel } from '../db/model.repository.ts';
import { retirementFields, scheduleOf, standingRetirement } from '../db/retirement.repository.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';
import { dated } from '../domain/retirement-changes.ts';
import { adminRetirement } from '../retirements/admin-retirements.ts';
import { planReminders } from '../retirements/plan-reminders.ts';

/** Setting the current date again changes nothing. */
export const setSunsetDate =
  (deps: Pick<ModelsDeps, 'database' | 'feed' | 'clock' | 'onRetirementChange'>): ModelsRpc<'setSunsetDate'> =>
  (request, context) =>
    changeRetirement(deps, context, async (em, now) => {
      const model = await requireModel(em, request.model);
      const row = await standingRetirement(em, model.id);
      if (row === null) throw notFound('retirement');
      const { sunsetAtMs } = dated(model.name, scheduleOf(row), timestampMs(request.sunsetAt!), now.getTime());
      const answer = async () => create(SetSunsetDateResponseSchema, { retirement: await adminRetirement(em, row) });
      const previous = row.sunsetAt;
      if (previous?.getTime() === sunsetAtMs) return { answer: await answer(), audit: null };

      const before = retirementFields(row);
      row.sunsetAt = new Date(sunsetAtMs);
      await em.flush();
      await planReminders(em, row, now, previous === null);
      return {
        answer: await answer(),
        audit: {
          type: 'model_sunset_date_set',
          target: { type: 'model', id: model.name },
          ...changedFields(before, retirementFields(row)),
        },
      };
    });
