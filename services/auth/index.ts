import type { ServiceImpl } from '@connectrpc/connect';
import type { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import type { AuthDeps } from './deps.ts';
import { acknowledgeAuth } from './rpc/acknowledge-auth.ts';
import { bootstrap } from './rpc/bootstrap.ts';
import { getProfile } from './rpc/get-profile.ts';
import { getSessionState } from './rpc/get-session-state.ts';
import { getSigningKeys } from './rpc/get-signing-keys.ts';
import { login } from './rpc/login.ts';
import { logout } from './rpc/logout.ts';
import { refresh } from './rpc/refresh.ts';
import { watchAuth } from './rpc/watch-auth.ts';

/** Auth: sessions, people, organizations, invitations, the audit chain, the mail outbox and the edges' feed. */
export function authService(deps: AuthDeps): Partial<ServiceImpl<typeof AuthService>> {
  return {
    login: login(deps),
    refresh: refresh(deps),
    logout: logout(deps),
    getProfile: getProfile(deps),
    getSigningKeys: getSigningKeys(deps),
    watchAuth: watchAuth(deps),
    acknowledgeAuth: acknowledgeAuth(deps),
    getSessionState: getSessionState(deps),
    bootstrap: bootstrap(deps),
  };
}
