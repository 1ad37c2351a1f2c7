import { UsageScope } from '#gen/modelgateway/usage/v1/scope_pb.ts';
import { asService, callerOf } from '#shared/rpc/caller.ts';
import type { ReadTurns } from '#shared/rpc/read-turns.ts';
import { slicesOf } from '#shared/slices.ts';
import { groupedSums } from '../db/grouped-sums.ts';
import { byCost, measuresMessage } from '../db/sums.ts';
import type { UsageDeps, UsageRpc } from '../deps.ts';
import { currentMonth, daysMaxOfSums, resolveRange } from '../domain/requested-range.ts';
import { subjectOf } from '../domain/subject.ts';
import { instantsOf } from '../domain/time-buckets.ts';
import { rangeMessage } from './report-messages.ts';

/** The most users that Auth looks up at once. */
const usersPerLookUp = 1_000;

type Deps = Pick<UsageDeps, 'database' | 'auth' | 'clock'> & { reads: ReadTurns };

export const getTenantBreakdown =
  ({ database, auth, clock, reads }: Deps): UsageRpc<'getTenantBreakdown'> =>
  async (request, context) => {
    const subject = subjectOf(callerOf(context), UsageScope.TENANT);
    const { startDate = '', endDate = '', timezone = '' } = request.range ?? {};
    const range = instantsOf(
      startDate === '' && endDate === ''
        ? currentMonth(timezone, clock.now())
        : resolveRange(request.range, { daysMax: daysMaxOfSums }, clock.now()),
    );
    const sums = () => groupedSums(database, { subject, range, dimensions: ['user_id'] });
    const { user_id: users } = await reads(context, sums);
    // A silent Auth must not keep the turns for which the reads of all organizations wait.
    const emails = await emailsOf(
      auth,
      users.map(({ name }) => name),
      context.signal,
    );
    return {
      range: rangeMessage(range),
      users: users.sort(byCost).map((row) => ({
        userId: row.name,
        email: emails.get(row.name) ?? '',
        measures: measuresMessage(row),
      })),
    };
  };

async function emailsOf(auth: UsageDeps['auth'], userIds: readonly string[], signal: AbortSignal) {
  const emails = new Map<string, string>();
  for (const asked of slicesOf(userIds, usersPerLookUp)) {
    // As a service: people may not look up others.
    const options = { ...asService('usage'), signal };
    const { users } = await auth.getUsers({ userIds: asked }, options);
    for (const { id, email } of users) emails.set(id, email);
  }
  return emails;
}
