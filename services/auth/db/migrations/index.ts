import type { NamedMigration } from '#shared/db/migrate.ts';
import { CreateAuth } from './0001-create-auth.ts';
import { KeepLeases } from './0002-keep-leases.ts';
import { StartAnewBehindFailovers } from './0003-start-anew-behind-failovers.ts';
import { IndexMailsAndInvitations } from './0004-index-mails-and-invitations.ts';
import { FreeAddresses } from './0005-free-addresses.ts';
import { FindAuditEvents } from './0006-find-audit-events.ts';
import { ChangeEmails } from './0007-change-emails.ts';
import { IndexEmailChanges } from './0008-index-email-changes.ts';

/** In the order in which they run. Released names never change. */
export const migrations: NamedMigration[] = [
  { name: '0001-create-auth', class: CreateAuth },
  { name: '0002-keep-leases', class: KeepLeases },
  { name: '0003-start-anew-behind-failovers', class: StartAnewBehindFailovers },
  { name: '0004-index-mails-and-invitations', class: IndexMailsAndInvitations },
  { name: '0005-free-addresses', class: FreeAddresses },
  { name: '0006-find-audit-events', class: FindAuditEvents },
  { name: '0007-change-emails', class: ChangeEmails },
  { name: '0008-index-email-changes', class: IndexEmailChanges },
];
