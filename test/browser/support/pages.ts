import type { World } from './world/index.ts';

/** Every page and who sees it, for screenshots and for the checks that each page has to pass. */
export type PageOfPortal = { name: string; path: string; as: 'nobody' | 'member' | 'owner' | 'operator' };

export function pagesOf(
  ids: Pick<World, 'invitationToken' | 'keyId' | 'teammatesKeyId' | 'invoiceId' | 'jobId' | 'model' | 'people'>,
): readonly PageOfPortal[] {
  const model = encodeURIComponent(ids.model);
  return [
    { name: 'sign-in', path: '/sign-in', as: 'nobody' },
    { name: 'accept-invitation', path: `/accept-invite?token=${ids.invitationToken}`, as: 'nobody' },
    { name: 'forgot-password', path: '/forgot-password', as: 'nobody' },
    { name: 'reset-password', path: '/reset-password?token=good-token', as: 'nobody' },
    { name: 'register', path: '/register', as: 'nobody' },
    { name: 'overview', path: '/', as: 'owner' },
    { name: 'keys', path: '/keys', as: 'owner' },
    { name: 'create-key', path: '/keys?create=1', as: 'owner' },
    { name: 'key', path: `/keys/${ids.keyId}`, as: 'owner' },
    { name: 'teammates-key', path: `/keys/${ids.teammatesKeyId}`, as: 'owner' },
    { name: 'models', path: '/models', as: 'owner' },
    { name: 'model', path: `/models/${model}`, as: 'owner' },
    { name: 'playground', path: '/playground', as: 'owner' },
    { name: 'transcribe', path: '/playground?mode=transcribe', as: 'owner' },
    { name: 'jobs', path: '/jobs', as: 'owner' },
    { name: 'job', path: `/jobs/${ids.jobId}`, as: 'owner' },
    { name: 'reference', path: '/reference', as: 'owner' },
    { name: 'reference-operation', path: '/reference?operation=listMembers', as: 'owner' },
    { name: 'usage', path: '/usage', as: 'owner' },
    { name: 'usage-requests', path: '/usage?by=request', as: 'owner' },
    { name: 'billing', path: '/billing', as: 'owner' },
    { name: 'invoices', path: '/billing?tab=invoices', as: 'owner' },
    { name: 'transactions', path: '/billing?tab=transactions', as: 'owner' },
    { name: 'invoice', path: `/billing/invoices/${ids.invoiceId}`, as: 'owner' },
    { name: 'billing-member', path: '/billing', as: 'member' },
    { name: 'limits', path: '/limits', as: 'owner' },
    { name: 'organization', path: '/organization', as: 'owner' },
    { name: 'invitations', path: '/organization?tab=invitations', as: 'owner' },
    { name: 'audit', path: '/audit', as: 'owner' },
    { name: 'audit-of-key', path: `/audit?target=${ids.keyId}`, as: 'owner' },
    { name: 'settings', path: '/settings', as: 'owner' },
    { name: 'confirm-email', path: '/confirm-email?token=some-token#email=new%40example.com', as: 'owner' },
    { name: 'not-found', path: '/nothing-here', as: 'owner' },
    { name: 'operator-organizations', path: '/operator/organizations', as: 'operator' },
    { name: 'operator-organization', path: `/operator/organizations/${ids.people.tenantId}`, as: 'operator' },
    ...['members', 'invitations', 'invoices', 'commitments', 'transactions'].map((tab) => ({
      name: `operator-${tab}`,
      path: `/operator/organizations/${ids.people.tenantId}?tab=${tab}`,
      as: 'operator' as const,
    })),
    {
      name: 'operator-invoice',
      path: `/operator/organizations/${ids.people.tenantId}/invoices/${ids.invoiceId}`,
      as: 'operator',
    },
    { name: 'operator-keys', path: '/operator/keys', as: 'operator' },
    {
      name: 'operator-keys-of-organization',
      path: `/operator/keys?organization=${ids.people.tenantId}`,
      as: 'operator',
    },
    { name: 'operator-models', path: '/operator/models', as: 'operator' },
    { name: 'operator-model', path: `/operator/models/${model}`, as: 'operator' },
    { name: 'operator-retirements', path: '/operator/retirements', as: 'operator' },
    { name: 'operator-plans', path: '/operator/plans', as: 'operator' },
    { name: 'operator-coupons', path: '/operator/coupons', as: 'operator' },
    { name: 'operator-jobs', path: '/operator/jobs', as: 'operator' },
    { name: 'operator-calls', path: `/operator/calls?organization=${ids.people.tenantId}`, as: 'operator' },
    { name: 'operator-mail', path: '/operator/mail', as: 'operator' },
    { name: 'operator-audit', path: '/operator/audit', as: 'operator' },
    { name: 'operator-signing-keys', path: '/operator/signing-keys', as: 'operator' },
    { name: 'operator-health', path: '/operator/health', as: 'operator' },
  ];
}
