import { create } from '@bufbuild/protobuf';
import { type QueryOrderMap, raw } from '@mikro-orm/postgresql';
import { ListRetirementsResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { pageInfo, pageRows } from '#shared/page.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { ModelEntity } from '../db/catalog.entities.ts';
import { RetirementEntity, type RetirementRow } from '../db/retirement.entities.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';
import { adminRetirements } from '../retirements/admin-retirements.ts';

export const listRetirements =
  ({ database, clock }: Pick<ModelsDeps, 'database' | 'clock'>): ModelsRpc<'listRetirements'> =>
  async ({ page, model, nextFirst }, context) => {
    operatorCaller(context);
    const em = database.em();
    const rows = pageRows(page);
    // A name may have been reused: this finds the retirements of all models that bore it.
    const where =
      model === '' ? {} : { modelId: { $in: (await em.find(ModelEntity, { name: model })).map(({ id }) => id) } };
    const [retirements, total] = await em.findAndCount(RetirementEntity, where, {
      orderBy: nextFirst ? byUrgency(new Date(clock.now())) : { deprecatedAt: 'desc', id: 'desc' },
      limit: rows.limit,
      offset: rows.offset,
    });
    return create(ListRetirementsResponseSchema, {
      retirements: await adminRetirements(em, retirements),
      pageInfo: pageInfo(rows, total),
    });
  };

/** Upcoming ones by the day on which they stop, then those without a date, then those that are over, the latest first. */
function byUrgency(now: Date): QueryOrderMap<RetirementRow>[] {
  const isOver = '(withdrawn_at is not null or coalesce(sunset_at <= ?, false))';
  const day = 'extract(epoch from coalesce(sunset_at, deprecated_at))';
  return [
    { [raw(isOver, [now])]: 'asc' },
    { [raw(`case when ${isOver} then null else sunset_at is null end`, [now])]: 'asc' },
    { [raw(`case when ${isOver} then -${day} else ${day} end`, [now])]: 'asc' },
    { id: 'desc' },
  ];
}
