import type { Claims } from '../api/client.ts';
import type { IconName } from '../ui/icons.tsx';

type NavigationItem = { name: string; href: string; icon: IconName; words?: string };
type NavigationGroup = { name: string; area: Area; items: readonly NavigationItem[] };

/** What a page is about: one's own organization, or what only operators see. */
export type Area = 'organization' | 'platform';

export const areaOf = (path: string): Area => (path.startsWith('/operator/') ? 'platform' : 'organization');

/** The portal's pages for one user. Pages that the role may not see are left out; the API refuses them anyway. */
export function navigationFor(claims: Claims): readonly NavigationGroup[] {
  const admin = claims.role !== 'member';
  const groups: NavigationGroup[] = [
    {
      name: 'Build',
      area: 'organization',
      items: [
        { name: 'Overview', href: '/', icon: 'home', words: 'home start dashboard' },
        { name: 'API keys', href: '/keys', icon: 'key', words: 'secret token scopes' },
        { name: 'Models', href: '/models', icon: 'model', words: 'catalog prices retirement snippets' },
        { name: 'Playground', href: '/playground', icon: 'play', words: 'chat images speech transcribe try' },
        { name: 'Jobs', href: '/jobs', icon: 'job', words: 'background async' },
        { name: 'API reference', href: '/reference', icon: 'code', words: 'openapi endpoints documentation curl' },
      ],
    },
    {
      name: 'Spend',
      area: 'organization',
      items: [
        { name: 'Usage', href: '/usage', icon: 'chart', words: 'requests tokens cost history' },
        { name: 'Billing', href: '/billing', icon: 'card', words: 'wallet invoices plan coupon credit' },
        { name: 'Limits', href: '/limits', icon: 'gauge', words: 'rate limits budget cap' },
      ],
    },
  ];
  if (admin) {
    groups.push({
      name: 'Organization',
      area: 'organization',
      items: [
        { name: 'Members', href: '/organization', icon: 'people', words: 'invitations roles team' },
        { name: 'Audit log', href: '/audit', icon: 'log', words: 'events history' },
      ],
    });
  }
  if (claims.operator) {
    groups.push(
      {
        name: 'Customers',
        area: 'platform',
        items: [
          { name: 'Organizations', href: '/operator/organizations', icon: 'people', words: 'tenants suspend credits' },
          { name: 'All keys', href: '/operator/keys', icon: 'shield', words: 'revoke' },
          {
            name: 'Calls',
            href: '/operator/calls',
            icon: 'pulse',
            words: 'find request id x-request-id failed errors',
          },
          { name: 'All jobs', href: '/operator/jobs', icon: 'job', words: 'background' },
        ],
      },
      {
        name: 'Offer',
        area: 'platform',
        items: [
          { name: 'Model catalog', href: '/operator/models', icon: 'server', words: 'deployments prices grants' },
          { name: 'Retirements', href: '/operator/retirements', icon: 'sunset', words: 'deprecation sunset' },
          { name: 'Plans', href: '/operator/plans', icon: 'price', words: 'limits credit payg terms' },
          { name: 'Coupons', href: '/operator/coupons', icon: 'ticket', words: 'credit code' },
        ],
      },
      {
        name: 'Operations',
        area: 'platform',
        items: [
          { name: 'Health', href: '/operator/health', icon: 'gauge', words: 'metrics ready' },
          { name: 'Mail outbox', href: '/operator/mail', icon: 'mail', words: 'email smtp' },
          { name: 'Platform audit', href: '/operator/audit', icon: 'log', words: 'events' },
          {
            name: 'Signing keys',
            href: '/operator/signing-keys',
            icon: 'key',
            words: 'rotate compromised leaked sessions',
          },
        ],
      },
    );
  }
  return groups;
}

/** Whether `path` is the page of an item, or below it. */
export function isCurrent(href: string, path: string): boolean {
  return href === '/' ? path === '/' : path === href || path.startsWith(`${href}/`);
}
