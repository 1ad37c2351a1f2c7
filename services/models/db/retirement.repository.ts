import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { type Retirement, RetirementSchema } from '#gen/modelgateway/models/v1/retirement_pb.ts';
import { timestampOrUnset } from '#shared/db/timestamp.ts';
import { type RetirementSchedule, successorOf } from '../domain/retirement.ts';
import { RetirementEntity, type RetirementRow } from './retirement.entities.ts';

/** The retirement of a model that stands: one at most. */
export const standingRetirement = (em: SqlEntityManager, modelId: string): Promise<RetirementRow | null> =>
  em.findOne(RetirementEntity, { modelId, withdrawnAt: null });

/** A row as the domain sees it. */
export const scheduleOf = (row: RetirementRow): RetirementSchedule => ({
  deprecatedAtMs: row.deprecatedAt.getTime(),
  sunsetAtMs: row.sunsetAt?.getTime() ?? null,
  successor: successorOf(row.replacementModelName, row.retirementNote),
});

/** A row as clients are told it. */
export const retirementMessage = (row: RetirementRow): Retirement =>
  create(RetirementSchema, {
    deprecatedAt: timestampFromDate(row.deprecatedAt),
    sunsetAt: timestampOrUnset(row.sunsetAt),
    replacementModelName: row.replacementModelName ?? '',
    retirementNote: row.retirementNote ?? '',
  });

/** A retirement's fields in audit events, in the public API's spelling. */
export const retirementFields = (row: RetirementRow) => ({
  deprecated_at: row.deprecatedAt.toISOString(),
  sunset_at: row.sunsetAt?.toISOString() ?? null,
  replacement_model_name: row.replacementModelName,
  retirement_note: row.retirementNote,
});
