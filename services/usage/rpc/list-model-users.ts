import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt';
import { NIL } from 'uuid';
import { CallerKind, callerOf, requireOperator } from '#shared/rpc/caller.ts';
import type { UsageDeps, UsageRpc } from '../deps.ts';

const usersPerPage = 1_000;

type Row = { tenant_id: string; user_id: string; last_used_at: Date };

export const listModelUsers = ({ database }: Pick<UsageDeps, 'database'>): UsageRpc<'listModelUsers'> =>
  async function* ({ model, since }, context) {
    const caller = callerOf(context);
    if (caller.kind !== CallerKind.SERVICE) requireOperator(caller);
    let after: [tenantId: string, userId: string] = [NIL, NIL];
    while (!context.signal.aborted) {
      // last_used_at is the start of a quarter hour, and the use may have been at its end.
      const { rows } = await database.query<Row>({
        text: `select tenant_id, user_id, last_used_at from model_users
          where model = $1 and last_used_at > $2::timestamptz - interval '15 minutes'
            and (tenant_id, user_id) > ($3::uuid, $4::uuid)
          order by tenant_id, user_id limit $5`,
        values: [model, timestampDate(since!), ...after, usersPerPage],
      });
      for (const row of rows) {
        yield { tenantId: row.tenant_id, userId: row.user_id, lastUsedAt: timestampFromDate(row.last_used_at) };
      }
      if (rows.length < usersPerPage) return;
      after = [rows.at(-1)!.tenant_id, rows.at(-1)!.user_id];
    }
  };
