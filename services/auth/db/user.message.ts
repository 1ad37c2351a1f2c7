import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { type User, UserSchema } from '#gen/modelgateway/auth/v1/user_pb.ts';
import { timestampOrUnset } from '#shared/db/timestamp.ts';
import type { WholeMessage } from '#shared/whole-message.ts';
import type { UserRow } from './user.entity.ts';

/** A user for other services and the edge: everything but the password. */
export const userMessage = (row: UserRow): User =>
  create(UserSchema, {
    id: row.id,
    tenantId: row.tenantId,
    email: row.email,
    firstName: row.firstName,
    lastName: row.lastName,
    phone: row.phone,
    role: row.role,
    isActive: row.isActive,
    emailVerified: row.emailVerified,
    onboardingCompleted: row.onboardingCompleted,
    operator: row.operator,
    createdAt: timestampFromDate(row.createdAt),
    lastLoginAt: timestampOrUnset(row.lastLoginAt),
  } satisfies WholeMessage<typeof UserSchema>);
