import { Granularity } from '#gen/modelgateway/usage/v1/report_pb.ts';
import { spelling } from '../../../http/spelling.ts';

const upToWeeks = { hourly: Granularity.HOURLY, daily: Granularity.DAILY, weekly: Granularity.WEEKLY } as const;

/** How wide the buckets of the report on one key are (service.md, Key analytics). */
export const keyGranularities = spelling(upToWeeks);

/** How wide the buckets of other reports are (decisions.md, Usage). */
export const granularities = spelling({ ...upToWeeks, monthly: Granularity.MONTHLY });
