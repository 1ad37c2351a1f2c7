import { auditCommands } from './audit.ts';
import { bootstrapCommands } from './bootstrap.ts';
import type { AdminCommand } from './command.ts';
import { keyCommands } from './keys.ts';
import { ledgerCommands } from './ledger.ts';
import { mailCommands } from './mail.ts';
import { modelCommands } from './models.ts';
import { organizationCommands } from './organizations.ts';
import { retirementCommands } from './retirements.ts';
import { signingKeyCommands } from './signing-keys.ts';
import { userCommands } from './users.ts';

/** Every command of the operators' command line. */
export const commands: readonly AdminCommand[] = [
  ...bootstrapCommands,
  ...organizationCommands,
  ...userCommands,
  ...keyCommands,
  ...modelCommands,
  ...retirementCommands,
  ...auditCommands,
  ...mailCommands,
  ...signingKeyCommands,
  ...ledgerCommands,
];
