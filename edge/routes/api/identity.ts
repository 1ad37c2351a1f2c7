import { fastifyCookie } from '@fastify/cookie';
import type { EdgeApp, Routes } from '../../app.ts';
import { jwksRoutes } from '../well-known/jwks.ts';
import { adminAuditEventRoutes } from './admin/audit-events.ts';
import { foundingInvitationRoutes } from './admin/invitations.ts';
import { adminMailRoutes } from './admin/mail.ts';
import { adminInvitationRoutes } from './admin/organizations/invitations.ts';
import { adminOrganizationRoutes } from './admin/organizations/organization.ts';
import { suspensionRoutes } from './admin/organizations/suspension.ts';
import { adminOrganizationsRoutes } from './admin/organizations.ts';
import { adminSigningKeyRoutes } from './admin/signing-keys.ts';
import { adminUserRoutes } from './admin/users.ts';
import { auditEventRoutes } from './audit-events.ts';
import { acceptInviteRoutes } from './auth/accept-invite.ts';
import { emailRoutes } from './auth/email.ts';
import { invitedToRoutes } from './auth/invitation.ts';
import { loginRoutes } from './auth/login.ts';
import { logoutRoutes } from './auth/logout.ts';
import { passwordRoutes } from './auth/password.ts';
import { refreshRoutes } from './auth/refresh.ts';
import { registerRoutes } from './auth/register.ts';
import { invitationRoutes } from './invitations.ts';
import { memberRoutes } from './members.ts';
import { organizationRoutes } from './organization.ts';
import { profileRoutes } from './profile.ts';

/** All routes about sessions, people, organizations and their operators. */
export const identityRoutes: Routes = (app, deps) => {
  invitedToRoutes(app, deps);
  acceptInviteRoutes(app, deps);
  passwordRoutes(app, deps);
  emailRoutes(app, deps);
  registerRoutes(app, deps);
  profileRoutes(app, deps);
  organizationRoutes(app, deps);
  memberRoutes(app, deps);
  invitationRoutes(app, deps);
  auditEventRoutes(app, deps);
  adminOrganizationsRoutes(app, deps);
  adminOrganizationRoutes(app, deps);
  adminInvitationRoutes(app, deps);
  foundingInvitationRoutes(app, deps);
  suspensionRoutes(app, deps);
  adminUserRoutes(app, deps);
  adminMailRoutes(app, deps);
  adminAuditEventRoutes(app, deps);
  adminSigningKeyRoutes(app, deps);
  jwksRoutes(app, deps);
  // Cookies are parsed only where the refresh token may be one.
  app.register(async (withCookies: EdgeApp) => {
    await withCookies.register(fastifyCookie);
    loginRoutes(withCookies, deps);
    refreshRoutes(withCookies, deps);
    logoutRoutes(withCookies, deps);
  });
};
