import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Organization } from '#gen/modelgateway/auth/v1/organization_pb.ts';
import type { KeyQuotaSchema } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import {
  accountStandings,
  accountSummaryJson,
  listOrganizations,
} from '../../../edge/routes/api/admin/organizations/listed-organizations.ts';
import { accountJson } from '../../../edge/routes/api/admin/plans.ts';
import { planJson } from '../../../edge/routes/api/billing/billing-json.ts';
import { organizationStatuses } from '../../../edge/routes/api/user-json.ts';
import {
  type AdminCommand,
  argument,
  choice,
  existingOrganization,
  idempotencyKeyOf,
  idempotencyOptions,
  pageOf,
  pageOptions,
  textOption,
  UsageError,
} from './command.ts';
import { limitOptions, limitsOf, shownLimits } from './rate-limits.ts';
import { timeText } from './time.ts';

export const organizationCommands: readonly AdminCommand[] = [
  {
    name: 'organizations list',
    usage: `[--status active|suspended] [--search text] [--standing ${accountStandings.names.join('|')}] [--page n] [--limit n]`,
    summary:
      'Lists organizations, newest first: all, or in a standing those that spent most this month first. An invoice number finds its owner.',
    options: {
      ...pageOptions,
      status: { type: 'string' },
      search: { type: 'string' },
      standing: { type: 'string' },
    },
    async run({ auth, billing, asOperator }, args) {
      const asked = {
        page: pageOf(args),
        status: organizationStatuses.value(choice(args, 'status', organizationStatuses.names)),
        search: textOption(args, 'search'),
        standing: accountStandings.value(choice(args, 'standing', accountStandings.names)),
      };
      const { organizations, page } = await listOrganizations({ auth, billing }, asked, asOperator);
      const output = organizations.map(({ organization, account }) => ({
        ...shown(organization),
        account: account === undefined ? null : accountSummaryJson(account),
      }));
      const columns = ['plan.code', 'spent_usd', 'left_usd', 'funds', 'overdue_usd'].map((name) => `account.${name}`);
      return { output, page, columns: ['id', 'name', 'status', ...columns] };
    },
  },
  {
    name: 'organizations show',
    usage: '<id>',
    summary: 'Shows an organization and its account: plan, credit, commitment, PAYG, unpaid invoices and rate limits.',
    async run({ auth, billing, asOperator }, args) {
      const tenantId = argument(args, 0, "the organization's id");
      const { organization } = await auth.adminGetOrganization({ tenantId }, asOperator);
      return {
        output: { ...shown(organization!), ...accountJson(await billing.getAccount({ tenantId }, asOperator)) },
      };
    },
  },
  {
    name: 'organizations create',
    usage: '<owner email> [--name text] [--idempotency-key text]',
    summary: 'Creates an organization and emails an invitation to its owner.',
    options: { ...idempotencyOptions, name: { type: 'string' } },
    async run({ auth, asOperator }, args) {
      const request = {
        ownerEmail: argument(args, 0, "the owner's email address"),
        name: textOption(args, 'name'),
        idempotencyKey: idempotencyKeyOf(args),
      };
      const { organization, invitation } = await auth.adminCreateOrganization(request, asOperator);
      return {
        output: {
          organization: organization?.id ?? 'created when the invitation is accepted',
          invitation: invitation!.id,
          expires_at: timeText(invitation!.expiresAt),
        },
      };
    },
  },
  {
    name: 'organizations rename',
    usage: '<id> <name>',
    summary: 'Renames an organization.',
    async run({ auth, asOperator }, args) {
      const tenantId = argument(args, 0, "the organization's id");
      const { organization } = await auth.adminUpdateOrganization(
        { tenantId, name: argument(args, 1, 'the name') },
        asOperator,
      );
      return { output: shown(organization!) };
    },
  },
  {
    name: 'organizations plan',
    usage: '<id> <code>',
    summary: 'Puts an organization on a plan, at once.',
    async run(context, args) {
      const tenantId = await existingOrganization(context, args);
      const request = { tenantId, planCode: argument(args, 1, "the plan's code") };
      const { plan } = await context.billing.assignPlan(request, context.asOperator);
      return { output: { organization: tenantId, plan: planJson(plan!) } };
    },
  },
  {
    name: 'organizations key-quota',
    usage: '<id> [number|unlimited|default]',
    summary: 'Sets how many API keys each user of an organization may have. Without a value, shows the quota.',
    async run(context, args) {
      const { keys, asOperator } = context;
      const tenantId = await existingOrganization(context, args);
      const [, asked] = args.positionals;
      if (asked !== undefined) await keys.setKeyQuota({ tenantId, quota: quotaOf(asked) }, asOperator);
      const { effectiveKeysPerUser } = await keys.getKeyQuota({ tenantId }, asOperator);
      return { output: { organization: tenantId, keys_per_user: effectiveKeysPerUser ?? 'unlimited' } };
    },
  },
  {
    name: 'organizations suspend',
    usage: '<id> [--reason text]',
    summary: 'Suspends an organization: its inference, jobs and realtime sessions are refused.',
    options: { reason: { type: 'string' } },
    async run({ auth, asOperator }, args) {
      const request = { tenantId: argument(args, 0, "the organization's id"), reason: textOption(args, 'reason') };
      const { organization } = await auth.suspendOrganization(request, asOperator);
      return { output: shown(organization!) };
    },
  },
  {
    name: 'organizations restore',
    usage: '<id>',
    summary: 'Ends the suspension of an organization.',
    async run({ auth, asOperator }, args) {
      const request = { tenantId: argument(args, 0, "the organization's id") };
      const { organization } = await auth.restoreOrganization(request, asOperator);
      return { output: shown(organization!) };
    },
  },
  {
    name: 'organizations limits',
    usage: '<id> [--requests n] [--tokens n] [--concurrent n] [--plan-limits]',
    summary:
      "Sets an organization's rate limits (per minute, and at the same time), or returns to its plan's. Without options, shows them.",
    options: { ...limitOptions, 'plan-limits': { type: 'boolean' } },
    async run(context, args) {
      const { billing, asOperator } = context;
      const tenantId = await existingOrganization(context, args);
      const given = limitsOf(args, 'plan-limits');
      if (given === null) {
        const { effectiveRateLimits } = await billing.getAccount({ tenantId }, asOperator);
        return { output: shownLimits(effectiveRateLimits) };
      }
      const answer = await billing.setOrganizationRateLimits({ tenantId, ...given }, asOperator);
      return { output: shownLimits(answer.effectiveRateLimits) };
    },
  },
];

function quotaOf(text: string): MessageInitShape<typeof KeyQuotaSchema> {
  if (text === 'default') return { quota: { case: 'platformDefault', value: true } };
  if (text === 'unlimited') return { quota: { case: 'unlimited', value: true } };
  if (!/^\d{1,7}$/.test(text)) throw new UsageError('the quota must be a whole number, unlimited or default');
  return { quota: { case: 'keysPerUser', value: Number(text) } };
}

const shown = (organization: Organization) => ({
  id: organization.id,
  name: organization.name,
  status: organizationStatuses.name(organization.status),
  created_at: timeText(organization.createdAt),
  reason: organization.suspensionReason,
});
