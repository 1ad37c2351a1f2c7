import { create } from '@bufbuild/protobuf';
import { ListRetirementsResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { pageInfo, pageRows } from '#shared/page.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { ModelEntity } from '../db/catalog.entities.ts';
import { RetirementEntity } from '../db/retirement.entities.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';
import { adminRetirements } from '../retirements/admin-retirements.ts';

export const listRetirements =
  ({ database }: Pick<ModelsDeps, 'database'>): ModelsRpc<'listRetirements'> =>
  async ({ page, model }, context) => {
    operatorCaller(context);
    const em = database.em();
    const rows = pageRows(page);
    // A name may have been reused: this finds the retirements of all models that bore it.
    const where =
      model === '' ? {} : { modelId: { $in: (await em.find(ModelEntity, { name: model })).map(({ id }) => id) } };
    const [retirements, total] = await em.findAndCount(RetirementEntity, where, {
      orderBy: { deprecatedAt: 'desc', id: 'desc' },
      limit: rows.limit,
      offset: rows.offset,
    });
    return create(ListRetirementsResponseSchema, {
      retirements: await adminRetirements(em, retirements),
      pageInfo: pageInfo(rows, total),
    });
  };
