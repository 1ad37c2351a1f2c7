import { EmailChangeEntity } from './email-change.entity.ts';
import { InvitationEntity } from './invitation.entity.ts';
import { MailEntity } from './mail.entity.ts';
import { OrganizationEntity } from './organization.entity.ts';
import { PasswordResetEntity } from './password-reset.entity.ts';
import { SessionEntity } from './session.entity.ts';
import { SigningKeyEntity } from './signing-key.entity.ts';
import { UserEntity } from './user.entity.ts';

/** The tables that the ORM knows; audit, feed, leases and throttles use plain SQL. */
export const entities = [
  OrganizationEntity,
  UserEntity,
  SessionEntity,
  InvitationEntity,
  PasswordResetEntity,
  EmailChangeEntity,
  SigningKeyEntity,
  MailEntity,
];
