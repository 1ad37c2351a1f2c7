import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { GetTenantsResponseSchema, OrganizationStatus } from '#gen/modelgateway/auth/v1/organization_pb.ts';
import { GetUsersResponseSchema } from '#gen/modelgateway/auth/v1/user_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { ErrorReason } from '#shared/errors.ts';
import { CallerKind, CallerSchema, Role } from '#shared/rpc/caller.ts';
import { type CurrentCallersDeps, currentCaller } from './current-callers.ts';

/** The user who submitted a job in a session, as Auth knows them when it runs. */
function callerNow(user: { isActive: boolean; role?: Role } | null, status: OrganizationStatus) {
  const auth: CurrentCallersDeps['auth'] = {
    getUsers: async () => create(GetUsersResponseSchema, { users: user === null ? [] : [user] }),
    getTenants: async () => create(GetTenantsResponseSchema, { organizations: [{ status }] }),
  };
  const keys = { getPrincipal: () => Promise.reject(new Error('a session has no key')) };
  const caller = create(CallerSchema, { kind: CallerKind.SESSION, role: Role.OWNER });
  return currentCaller({ auth, keys, clock: systemClock }, caller);
}
const { ACTIVE, SUSPENDED } = OrganizationStatus;

test("a session's job runs for a user who is still active, in their current role, and not for a suspended organization", async () => {
  expect((await callerNow({ isActive: true, role: Role.MEMBER }, ACTIVE)).role).toBe(Role.MEMBER);
  for (const user of [{ isActive: false }, null]) {
    await expect(callerNow(user, ACTIVE)).rejects.toMatchObject({ reason: ErrorReason.INVALID_TOKEN });
  }
  await expect(callerNow({ isActive: true }, SUSPENDED)).rejects.toMatchObject({
    reason: ErrorReason.TENANT_SUSPENDED,
  });
});
