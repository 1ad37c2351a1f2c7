import { invalidRequest } from '#shared/errors.ts';
import { pageInfo, pageRows } from '#shared/page.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { lookUpCalls, pageOfCalls } from '../db/calls.ts';
import { eventMessage } from '../db/event-rows.ts';
import { pageOfEvents } from '../db/history.ts';
import type { UsageDeps, UsageRpc } from '../deps.ts';
import { openInstants, resolveOpenRange, resolveRange } from '../domain/requested-range.ts';
import { instantsOf } from '../domain/time-buckets.ts';

/** The most days, and by default as many, of which the calls of all organizations, or through one deployment, are read. */
const daysMax = 7;

/** Operators hear of a call, of whose it was, or of a model or upstream that fails. */
export const adminFindCalls =
  ({ database, machineClock }: Pick<UsageDeps, 'database' | 'machineClock'>): UsageRpc<'adminFindCalls'> =>
  async ({ requestId, eventId, range, page: asked, ...filter }, context) => {
    operatorCaller(context);
    const page = pageRows(asked);
    const { tenantId, deploymentId, success } = filter;
    const find = () => {
      const open = openInstants(resolveOpenRange(range));
      if (requestId !== '' || eventId !== '') {
        return lookUpCalls(database, { requestId, eventId, filter, ...open, ...page });
      }
      // The sums that lead to an organization's calls of all time do not know deployments.
      if (tenantId !== '' && deploymentId === '') {
        return pageOfEvents(database, { subject: { tenantId, userId: null }, filter, success, ...open, ...page });
      }
      if (deploymentId !== '' && success !== false) {
        const message = 'Only failed calls are found by their deployment: give `success=false` with `deployment_id`.';
        throw invalidRequest('deployment_id', message, 'invalid_value');
      }
      const qualifier = tenantId === '' ? ' without `tenant_id`' : ' with `deployment_id`';
      const days = resolveRange(range, { daysMax, defaultDays: daysMax, qualifier }, machineClock.now());
      return pageOfCalls(database, { filter, range: instantsOf(days), ...page });
    };
    const { rows, total } = await find();
    return { events: rows.map(eventMessage), pageInfo: pageInfo(page, total) };
  };
