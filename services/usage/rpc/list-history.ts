import { pageInfo } from '#shared/page.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import { eventMessage } from '../db/event-rows.ts';
import { pageOfEvents } from '../db/history.ts';
import type { UsageDeps, UsageRpc } from '../deps.ts';
import { openInstants, resolveOpenRange } from '../domain/requested-range.ts';
import { subjectOf } from '../domain/subject.ts';

/** Events per answer by default (decisions.md, Usage). */
const limitDefault = 50;

export const listHistory =
  ({ database }: Pick<UsageDeps, 'database'>): UsageRpc<'listHistory'> =>
  async (request, context) => {
    const subject = subjectOf(callerOf(context), request.scope);
    const query = {
      subject,
      filter: request.filter,
      success: request.success,
      requestId: request.requestId,
      eventId: request.eventId,
      ...openInstants(resolveOpenRange(request.range)),
    };
    const { offset } = request;
    const limit = request.limit || limitDefault;
    const { rows, total } = await pageOfEvents(database, { ...query, limit, offset });
    const page = { page: Math.floor(offset / limit) + 1, limit, offset };
    return {
      events: rows.map(eventMessage),
      // By the offset, which need not be a multiple of the limit.
      pageInfo: { ...pageInfo(page, total), hasNext: offset + rows.length < total, hasPrev: offset > 0 },
    };
  };
