import { timestampMs } from '@bufbuild/protobuf/wkt';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

type StateRow = { version: bigint; is_active: boolean; tokens_not_before: Date; ended: boolean; suspended: boolean };

/** Whether a session's token is still valid, for an edge whose feed is silent. */
export const getSessionState =
  ({ database, clock }: Pick<AuthDeps, 'database' | 'clock'>): AuthRpc<'getSessionState'> =>
  async (request, context) => {
    requireService(callerOf(context), 'edge');
    const { rows } = await database.query<StateRow>({
      name: 'auth-session-state',
      text: `select feed.version, users.is_active, users.tokens_not_before, sessions.ended_at is not null as ended,
          organizations.suspended_at is not null as suspended
        from users
        join organizations on organizations.id = users.tenant_id
        join sessions on sessions.tenant_id = users.tenant_id and sessions.id = $2
        cross join feed
        where users.id = $1 and sessions.user_id = users.id
          and ($3 = '' or exists (select from signing_keys where kid = $3 and (expires_at is null or expires_at > $4)))`,
      values: [request.userId, request.sessionId, request.kid, new Date(clock.now())],
    });
    const state = rows[0];
    if (state === undefined) return { accepted: false };
    const issuedAtMs = timestampMs(request.issuedAt!);
    return {
      accepted: state.is_active && !state.ended && issuedAtMs >= state.tokens_not_before.getTime(),
      tenantSuspended: state.suspended,
      version: state.version,
    };
  };
