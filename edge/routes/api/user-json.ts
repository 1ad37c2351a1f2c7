import { type Organization, OrganizationStatus } from '#gen/modelgateway/auth/v1/organization_pb.ts';
import type { User } from '#gen/modelgateway/auth/v1/user_pb.ts';
import { roleName } from '#shared/session-token.ts';
import { isoTime } from '../../http/json.ts';
import { spelling } from '../../http/spelling.ts';

/** The `user` of the login result (service.md). */
export const userJson = (user: User) => ({
  id: user.id,
  email: user.email,
  first_name: user.firstName,
  last_name: user.lastName,
  tenant_id: user.tenantId,
  is_active: user.isActive,
  created_at: isoTime(user.createdAt),
  email_verified: user.emailVerified,
  onboarding_completed: user.onboardingCompleted,
});

/** The profile (decisions.md, Auth): the login result's user and what else is the user's own. */
export const profileJson = (user: User, organization: Organization) => ({
  ...userJson(user),
  role: roleName(user.role),
  phone: user.phone || null,
  ...(user.operator && { operator: true }),
  organization: {
    id: organization.id,
    name: organization.name,
    status: organizationStatuses.name(organization.status),
  },
});

/** A member as teammates who manage members see them. */
export const memberJson = (user: User) => ({
  ...userJson(user),
  role: roleName(user.role),
  phone: user.phone || null,
  last_login_at: isoTime(user.lastLoginAt),
});

export const organizationJson = (organization: Organization) => ({
  id: organization.id,
  name: organization.name,
  status: organizationStatuses.name(organization.status),
  created_at: isoTime(organization.createdAt),
  suspended_at: isoTime(organization.suspendedAt),
});

export const organizationStatuses = spelling({
  active: OrganizationStatus.ACTIVE,
  suspended: OrganizationStatus.SUSPENDED,
});
