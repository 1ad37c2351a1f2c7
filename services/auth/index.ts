import type { ServiceImpl } from '@connectrpc/connect';
import type { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { createReadTurns, readInTurn } from '#shared/rpc/read-turns.ts';
import type { AuthDeps } from './deps.ts';
import { acceptInvitation } from './rpc/accept-invitation.ts';
import { acknowledgeAuth } from './rpc/acknowledge-auth.ts';
import { adminCreateInvitation } from './rpc/admin-create-invitation.ts';
import { adminCreateOrganization } from './rpc/admin-create-organization.ts';
import { adminDeleteInvitation } from './rpc/admin-delete-invitation.ts';
import { adminGetOrganization } from './rpc/admin-get-organization.ts';
import { adminListAuditEvents } from './rpc/admin-list-audit-events.ts';
import { adminListInvitations } from './rpc/admin-list-invitations.ts';
import { adminListOrganizations } from './rpc/admin-list-organizations.ts';
import { adminListUsers } from './rpc/admin-list-users.ts';
import { adminUpdateOrganization } from './rpc/admin-update-organization.ts';
import { adminUpdateUser } from './rpc/admin-update-user.ts';
import { bootstrap } from './rpc/bootstrap.ts';
import { changePassword } from './rpc/change-password.ts';
import { confirmEmailChange } from './rpc/confirm-email-change.ts';
import { createInvitation } from './rpc/create-invitation.ts';
import { deleteInvitation } from './rpc/delete-invitation.ts';
import { forgotPassword } from './rpc/forgot-password.ts';
import { getInvitation } from './rpc/get-invitation.ts';
import { getOrganization } from './rpc/get-organization.ts';
import { getProfile } from './rpc/get-profile.ts';
import { getSessionState } from './rpc/get-session-state.ts';
import { getSigningKeys } from './rpc/get-signing-keys.ts';
import { getTenants } from './rpc/get-tenants.ts';
import { getUsers } from './rpc/get-users.ts';
import { listActiveUsers } from './rpc/list-active-users.ts';
import { listAuditEvents } from './rpc/list-audit-events.ts';
import { listInvitations } from './rpc/list-invitations.ts';
import { listMail } from './rpc/list-mail.ts';
import { listMembers } from './rpc/list-members.ts';
import { login } from './rpc/login.ts';
import { logout } from './rpc/logout.ts';
import { recordAuditEvents } from './rpc/record-audit-events.ts';
import { refresh } from './rpc/refresh.ts';
import { requestEmailChange } from './rpc/request-email-change.ts';
import { resetPassword } from './rpc/reset-password.ts';
import { restoreOrganization } from './rpc/restore-organization.ts';
import { rotateSigningKey } from './rpc/rotate-signing-key.ts';
import { sendMail } from './rpc/send-mail.ts';
import { suspendOrganization } from './rpc/suspend-organization.ts';
import { updateMember } from './rpc/update-member.ts';
import { updateOrganization } from './rpc/update-organization.ts';
import { updateProfile } from './rpc/update-profile.ts';
import { verifyAuditChain } from './rpc/verify-audit-chain.ts';
import { watchAuth } from './rpc/watch-auth.ts';
import { withdrawMail } from './rpc/withdraw-mail.ts';

/** Auth: sessions, people, organizations, invitations, the audit chain, the mail outbox and the edges' feed. */
export function authService(deps: AuthDeps): ServiceImpl<typeof AuthService> {
  const inTurn = readInTurn(createReadTurns());
  return {
    login: login(deps),
    refresh: refresh(deps),
    logout: logout(deps),
    getInvitation: getInvitation(deps),
    acceptInvitation: acceptInvitation(deps),
    forgotPassword: forgotPassword(deps),
    resetPassword: resetPassword(deps),
    changePassword: changePassword(deps),

    getProfile: getProfile(deps),
    updateProfile: updateProfile(deps),
    requestEmailChange: requestEmailChange(deps),
    confirmEmailChange: confirmEmailChange(deps),
    getOrganization: getOrganization(deps),
    updateOrganization: updateOrganization(deps),
    listMembers: listMembers(deps),
    updateMember: updateMember(deps),
    listInvitations: listInvitations(deps),
    createInvitation: createInvitation(deps),
    deleteInvitation: deleteInvitation(deps),
    listAuditEvents: inTurn(listAuditEvents(deps)),

    adminCreateOrganization: adminCreateOrganization(deps),
    adminListOrganizations: adminListOrganizations(deps),
    adminGetOrganization: adminGetOrganization(deps),
    adminUpdateOrganization: adminUpdateOrganization(deps),
    adminListInvitations: adminListInvitations(deps),
    adminCreateInvitation: adminCreateInvitation(deps),
    adminDeleteInvitation: adminDeleteInvitation(deps),
    suspendOrganization: suspendOrganization(deps),
    restoreOrganization: restoreOrganization(deps),
    adminListUsers: adminListUsers(deps),
    adminUpdateUser: adminUpdateUser(deps),
    adminListAuditEvents: adminListAuditEvents(deps),
    verifyAuditChain: verifyAuditChain(deps),
    listMail: listMail(deps),
    rotateSigningKey: rotateSigningKey(deps),

    getSigningKeys: getSigningKeys(deps),
    watchAuth: watchAuth(deps),
    acknowledgeAuth: acknowledgeAuth(deps),
    getSessionState: getSessionState(deps),
    getUsers: getUsers(deps),
    listActiveUsers: listActiveUsers(deps),
    getTenants: getTenants(deps),
    recordAuditEvents: recordAuditEvents(deps),
    sendMail: sendMail(deps),
    withdrawMail: withdrawMail(deps),
    bootstrap: bootstrap(deps),
  };
}
