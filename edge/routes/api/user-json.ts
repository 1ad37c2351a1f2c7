import { type Static, Type } from 'typebox';
import { type Organization, OrganizationStatus } from '#gen/modelgateway/auth/v1/organization_pb.ts';
import type { User } from '#gen/modelgateway/auth/v1/user_pb.ts';
import { invalidValue } from '#shared/errors.ts';
import { isUuid } from '#shared/ids.ts';
import { roleName } from '#shared/session-token.ts';
import { idSchema, isoTime, isoTimeSchema } from '../../http/json.ts';
import { orNull } from '../../http/nullable.ts';
import { spelling } from '../../http/spelling.ts';

export const organizationStatuses = spelling({
  active: OrganizationStatus.ACTIVE,
  suspended: OrganizationStatus.SUSPENDED,
});

export const roleSchema = Type.Enum(['member', 'admin', 'owner']);

/** The `user` of the login result (service.md). */
export const userSchema = Type.Object(
  {
    id: idSchema,
    email: Type.String(),
    first_name: Type.String(),
    last_name: Type.String(),
    tenant_id: idSchema,
    is_active: Type.Boolean(),
    created_at: isoTimeSchema,
    email_verified: Type.Boolean(),
    onboarding_completed: Type.Boolean(),
  },
  { $id: 'User' },
);
export const userJson = (user: User): Static<typeof userSchema> => ({
  id: user.id,
  email: user.email,
  first_name: user.firstName,
  last_name: user.lastName,
  tenant_id: user.tenantId,
  is_active: user.isActive,
  created_at: isoTime(user.createdAt!),
  email_verified: user.emailVerified,
  onboarding_completed: user.onboardingCompleted,
});

/** The profile (decisions.md, Auth): the login result's user and everything else about the caller. */
export const profileSchema = Type.Object(
  {
    ...userSchema.properties,
    role: roleSchema,
    phone: orNull(Type.String()),
    operator: Type.Optional(Type.Literal(true)),
    organization: Type.Object({ id: idSchema, name: Type.String(), status: organizationStatuses.schema }),
  },
  { $id: 'Profile' },
);
export const profileJson = (user: User, organization: Organization): Static<typeof profileSchema> => ({
  ...userJson(user),
  role: roleName(user.role),
  phone: user.phone || null,
  ...(user.operator && { operator: true as const }),
  organization: {
    id: organization.id,
    name: organization.name,
    status: organizationStatuses.name(organization.status),
  },
});

/** A member as seen by those who manage members. */
export const memberSchema = Type.Object(
  {
    ...userSchema.properties,
    role: roleSchema,
    phone: orNull(Type.String()),
    last_login_at: orNull(isoTimeSchema),
  },
  { $id: 'Member' },
);
export const memberJson = (user: User): Static<typeof memberSchema> => ({
  ...userJson(user),
  role: roleName(user.role),
  phone: user.phone || null,
  last_login_at: isoTime(user.lastLoginAt),
});

export const organizationSchema = Type.Object(
  {
    id: idSchema,
    name: Type.String(),
    status: organizationStatuses.schema,
    created_at: isoTimeSchema,
    suspended_at: orNull(isoTimeSchema),
  },
  { $id: 'Organization' },
);
export const organizationJson = (organization: Organization): Static<typeof organizationSchema> => ({
  id: organization.id,
  name: organization.name,
  status: organizationStatuses.name(organization.status),
  created_at: isoTime(organization.createdAt!),
  suspended_at: isoTime(organization.suspendedAt),
});

/** A filter by users. */
export const userIdsSchema = Type.Optional(
  Type.String({ minLength: 1, maxLength: 4_000, description: 'Their ids, at most 100, separated by commas.' }),
);

/** The ids in a query of `userIdsSchema`. @throws INVALID_REQUEST that names the parameter; Auth would name a place in the list. */
export function readUserIds(text: string | undefined): string[] | undefined {
  const ids = text?.split(',');
  if (ids?.every(isUuid) === false) throw invalidValue('user_ids', 'expected UUIDs, separated by commas');
  return ids;
}
