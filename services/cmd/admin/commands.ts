import { auditCommands } from './audit.ts';
import { bootstrapCommands } from './bootstrap.ts';
import { callCommands } from './calls.ts';
import type { AdminCommand } from './command.ts';
import { commitmentCommands } from './commitments.ts';
import { couponCommands } from './coupons.ts';
import { creditCommands } from './credits.ts';
import { deploymentCommands } from './deployments.ts';
import { grantCommands } from './grants.ts';
import { invitationCommands } from './invitations.ts';
import { invoiceCommands } from './invoices.ts';
import { jobCommands } from './jobs.ts';
import { keyCommands } from './keys.ts';
import { ledgerCommands } from './ledger.ts';
import { mailCommands } from './mail.ts';
import { modelCommands } from './models.ts';
import { organizationCommands } from './organizations.ts';
import { planCommands } from './plans.ts';
import { priceCommands } from './prices.ts';
import { retirementCommands } from './retirements.ts';
import { signingKeyCommands } from './signing-keys.ts';
import { upstreamCommands } from './upstreams.ts';
import { userCommands } from './users.ts';

/** Every command of the operators' command line. */
export const commands: readonly AdminCommand[] = [
  ...bootstrapCommands,
  ...organizationCommands,
  ...invitationCommands,
  ...userCommands,
  ...keyCommands,
  ...callCommands,
  ...planCommands,
  ...creditCommands,
  ...commitmentCommands,
  ...couponCommands,
  ...invoiceCommands,
  ...modelCommands,
  ...deploymentCommands,
  ...priceCommands,
  ...grantCommands,
  ...upstreamCommands,
  ...retirementCommands,
  ...jobCommands,
  ...auditCommands,
  ...mailCommands,
  ...signingKeyCommands,
  ...ledgerCommands,
];
