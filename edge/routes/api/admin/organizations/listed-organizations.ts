import type { CallOptions } from '@connectrpc/connect';
import { type Static, Type } from 'typebox';
import type { Organization, OrganizationStatus } from '#gen/modelgateway/auth/v1/organization_pb.ts';
import { AccountStanding, type AccountSummary, FundsState } from '#gen/modelgateway/billing/v1/account_summary_pb.ts';
import { ErrorReason, hasReason } from '#shared/errors.ts';
import { usdJson } from '#shared/money.ts';
import { pageInfo, pageRows } from '#shared/page.ts';
import type { RouteDeps } from '../../../../app.ts';
import { usdOrNull, usdSchema } from '../../../../http/json.ts';
import { orNull } from '../../../../http/nullable.ts';
import { spelling } from '../../../../http/spelling.ts';
import { adminOrganizationJson, adminOrganizationSchema } from './organization-json.ts';

export const accountStandings = spelling({
  spending: AccountStanding.SPENDING,
  low: AccountStanding.LOW,
  exhausted: AccountStanding.EXHAUSTED,
  overdue: AccountStanding.OVERDUE,
});
const fundsStates = spelling({
  sufficient: FundsState.SUFFICIENT,
  low: FundsState.LOW,
  exhausted: FundsState.EXHAUSTED,
});

/** An organization's money in a few figures. */
const accountSummarySchema = Type.Object(
  {
    plan: Type.Object({ code: Type.String(), name: Type.String() }),
    spent_usd: Type.Number({ description: 'What was charged in the current UTC month, paid by credit or not.' }),
    credit_usd: Type.Number({ description: "The wallet's balance." }),
    left_usd: orNull(
      Type.Number({
        description:
          'What can still be spent: credit, commitment and, up to its cap, pay as you go; null means no limit.',
      }),
    ),
    funds: {
      ...fundsStates.schema,
      description:
        '`low`: what is left is at most a quarter of what was spent this month or last month. `exhausted`: nothing is left, and calls that cost anything are refused.',
    },
    receivable_usd: Type.Number({ description: 'The unpaid part of finalized invoices.' }),
    overdue_usd: usdSchema,
  },
  { $id: 'AccountSummary' },
);
export const accountSummaryJson = (account: AccountSummary): Static<typeof accountSummarySchema> => ({
  plan: { code: account.planCode, name: account.planName },
  spent_usd: usdJson(account.spentNanoUsd),
  credit_usd: usdJson(account.creditNanoUsd),
  left_usd: usdOrNull(account.leftNanoUsd),
  funds: fundsStates.name(account.funds),
  receivable_usd: usdJson(account.receivableNanoUsd),
  overdue_usd: usdJson(account.overdueNanoUsd),
});

/** An organization as the list of all shows it. */
export const listedOrganizationSchema = Type.Object(
  { ...adminOrganizationSchema.properties, account: orNull(accountSummarySchema) },
  { $id: 'ListedOrganization', description: '`account` is null while Billing does not answer.' },
);
export const listedOrganizationJson = ({ organization, account }: Listed): Static<typeof listedOrganizationSchema> => ({
  ...adminOrganizationJson(organization),
  account: account === undefined ? null : accountSummaryJson(account),
});

type Listed = { organization: Organization; account: AccountSummary | undefined };
type Asked = {
  page: { page?: number; limit?: number };
  status: OrganizationStatus;
  search: string | undefined;
  standing: AccountStanding;
};

/** How long a list waits for its accounts, in milliseconds: organizations are also listed without Billing. */
const accountsTimeoutMs = 1_000;

/** One page of organizations with their accounts. Auth knows the organizations, Billing their money: each is asked once. */
export async function listOrganizations(
  { auth, billing }: Pick<RouteDeps, 'auth' | 'billing'>,
  { page, status, search = '', standing }: Asked,
  options: CallOptions,
) {
  const request = { page, status, search: await ownerOfInvoice(billing, search, options) };
  if (standing === AccountStanding.UNSPECIFIED) {
    const { organizations, page: listed } = await auth.adminListOrganizations(request, options);
    const tenantIds = organizations.map(({ id }) => id);
    const accounts = tenantIds.length === 0 ? [] : await accountsOf(billing, tenantIds, options);
    return { organizations: withAccounts(organizations, accounts), page: listed };
  }
  const { accounts } = await billing.listAccounts({ standing }, options);
  if (accounts.length === 0) return { organizations: [], page: pageInfo(pageRows(page), 0) };
  const tenantIds = accounts.map(({ tenantId }) => tenantId);
  const { organizations, page: listed } = await auth.adminListOrganizations({ ...request, tenantIds }, options);
  return { organizations: withAccounts(organizations, accounts), page: listed };
}

const accountsOf = ({ listAccounts }: RouteDeps['billing'], tenantIds: string[], options: CallOptions) =>
  listAccounts({ tenantIds }, { ...options, timeoutMs: accountsTimeoutMs }).then(
    ({ accounts }) => accounts,
    () => [],
  );

function withAccounts(organizations: readonly Organization[], accounts: readonly AccountSummary[]): Listed[] {
  const accountOf = new Map(accounts.map((account) => [account.tenantId, account]));
  return organizations.map((organization) => ({ organization, account: accountOf.get(organization.id) }));
}

/** The id of the organization whose invoice has the number that is searched for, or else the search itself. */
async function ownerOfInvoice({ findInvoice }: RouteDeps['billing'], search: string, options: CallOptions) {
  if (!/^\s*inv-?\d+\s*$/i.test(search)) return search;
  return findInvoice({ number: search }, options).then(
    ({ tenantId }) => tenantId,
    (error) => {
      if (hasReason(error, ErrorReason.NOT_FOUND)) return search;
      throw error;
    },
  );
}
