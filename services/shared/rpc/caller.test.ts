import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { ErrorReason } from '../errors.ts';
import {
  type Caller,
  CallerKind,
  CallerSchema,
  callerContext,
  operatorCaller,
  Role,
  serviceCaller,
  sessionCaller,
} from './caller.ts';

const made = (kind: CallerKind, role: Role, operator = false) => create(CallerSchema, { kind, role, operator });
const member = made(CallerKind.SESSION, Role.MEMBER);
const calledBy = (caller: Caller) => ({ values: callerContext(caller) });

test("where API keys are not allowed a session is required, whatever the key's owner may do", () => {
  expect(sessionCaller(calledBy(member))).toBe(member);
  for (const caller of [made(CallerKind.API_KEY, Role.OWNER), serviceCaller('billing')])
    expect(() => sessionCaller(calledBy(caller))).toThrow(
      expect.objectContaining({ reason: ErrorReason.ENDPOINT_NOT_ALLOWED }),
    );
});

test('a session below the required role is refused', () => {
  expect(sessionCaller(calledBy(member), Role.MEMBER)).toBe(member);
  expect(() => sessionCaller(calledBy(member), Role.ADMIN)).toThrow(
    expect.objectContaining({ reason: ErrorReason.INSUFFICIENT_ROLE }),
  );
});

test('nobody but an operator counts as one, not even the owner of an organization', () => {
  const operator = made(CallerKind.SESSION, Role.MEMBER, true);
  expect(operatorCaller(calledBy(operator))).toBe(operator);
  expect(() => operatorCaller(calledBy(made(CallerKind.SESSION, Role.OWNER)))).toThrow(
    expect.objectContaining({ reason: ErrorReason.INSUFFICIENT_ROLE }),
  );
});
