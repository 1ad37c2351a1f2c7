import { Role } from '#shared/rpc/caller.ts';

type MemberState = { role: Role; isActive: boolean };

/** Whether somebody with this role may make the change at all: admins manage members and admins, only owners manage owners. */
export const mayChangeMember = (actor: Role, before: MemberState, after: MemberState): boolean =>
  actor >= Role.ADMIN && (actor >= Role.OWNER || (before.role < Role.OWNER && after.role < Role.OWNER));

/** Whether the change takes away the organization's last active owner. */
export const losesLastOwner = (before: MemberState, after: MemberState, otherActiveOwners: number): boolean =>
  isActiveOwner(before) && !isActiveOwner(after) && otherActiveOwners === 0;

const isActiveOwner = (state: MemberState): boolean => state.isActive && state.role === Role.OWNER;

/** Whether somebody with this role may invite for the other. */
export const mayInvite = (actor: Role, invited: Role): boolean =>
  actor >= Role.ADMIN && (invited < Role.OWNER || actor >= Role.OWNER);
