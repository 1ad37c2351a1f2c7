import { type ComponentType, lazy, Suspense, useEffect, useRef } from 'react';
import { useClaims } from '../api/hooks.ts';
import { CrashGuard } from '../shell/crash-guard.tsx';
import { NotFound } from '../shell/not-found.tsx';
import { Skeleton } from '../ui/skeleton.tsx';
import { fetched } from './fetched.ts';
import { matchPath } from './router.ts';

/** What a page gets from its address. */
export type PageParameters = { parameters: Readonly<Record<string, string>> };

type Route = {
  pattern: string;
  page: ComponentType<PageParameters> & { preload: () => void };
  /** Who can see the page; `public` pages need no session. */
  for: 'public' | 'user' | 'admin' | 'operator';
};

/** A page in its own file, loaded when it is first shown. `name` is that of the file's export. */
function page<Name extends string>(load: () => Promise<{ [key in Name]: ComponentType<PageParameters> }>, name: Name) {
  const shown = lazy(async () => ({ default: (await fetched(load))[name] }));
  // If loading fails, it fails again, and is reported, when the page is shown.
  return Object.assign(shown, { preload: () => void load().catch(() => {}) });
}

export const signInPath = '/sign-in';

const routes: readonly Route[] = [
  { pattern: signInPath, for: 'public', page: page(() => import('../pages/auth/sign-in.tsx'), 'SignIn') },
  {
    pattern: '/accept-invite',
    for: 'public',
    page: page(() => import('../pages/auth/accept-invitation.tsx'), 'AcceptInvitation'),
  },
  {
    pattern: '/accept-invitation',
    for: 'public',
    page: page(() => import('../pages/auth/accept-invitation.tsx'), 'AcceptInvitation'),
  },
  {
    pattern: '/forgot-password',
    for: 'public',
    page: page(() => import('../pages/auth/forgot-password.tsx'), 'ForgotPassword'),
  },
  {
    pattern: '/reset-password',
    for: 'public',
    page: page(() => import('../pages/auth/reset-password.tsx'), 'ResetPassword'),
  },
  { pattern: '/register', for: 'public', page: page(() => import('../pages/auth/register.tsx'), 'Register') },
  { pattern: '/', for: 'user', page: page(() => import('../pages/overview/overview.tsx'), 'Overview') },
  { pattern: '/keys', for: 'user', page: page(() => import('../pages/keys/keys.tsx'), 'Keys') },
  { pattern: '/keys/:id', for: 'user', page: page(() => import('../pages/keys/key.tsx'), 'KeyPage') },
  { pattern: '/models', for: 'user', page: page(() => import('../pages/models/models.tsx'), 'Models') },
  { pattern: '/models/*id', for: 'user', page: page(() => import('../pages/models/model.tsx'), 'ModelPage') },
  { pattern: '/playground', for: 'user', page: page(() => import('../pages/playground/playground.tsx'), 'Playground') },
  { pattern: '/reference', for: 'user', page: page(() => import('../pages/reference/reference.tsx'), 'Reference') },
  { pattern: '/jobs', for: 'user', page: page(() => import('../pages/jobs/jobs.tsx'), 'Jobs') },
  { pattern: '/jobs/:id', for: 'user', page: page(() => import('../pages/jobs/job.tsx'), 'JobPage') },
  { pattern: '/usage', for: 'user', page: page(() => import('../pages/usage/usage.tsx'), 'Usage') },
  { pattern: '/billing', for: 'user', page: page(() => import('../pages/billing/billing.tsx'), 'Billing') },
  {
    pattern: '/billing/invoices/:id',
    for: 'admin',
    page: page(() => import('../pages/billing/invoice.tsx'), 'InvoicePage'),
  },
  { pattern: '/limits', for: 'user', page: page(() => import('../pages/limits/limits.tsx'), 'Limits') },
  {
    pattern: '/organization',
    for: 'admin',
    page: page(() => import('../pages/organization/organization.tsx'), 'OrganizationPage'),
  },
  { pattern: '/audit', for: 'admin', page: page(() => import('../pages/organization/audit.tsx'), 'Audit') },
  { pattern: '/settings', for: 'user', page: page(() => import('../pages/settings/settings.tsx'), 'Settings') },
  {
    pattern: '/confirm-email',
    for: 'user',
    page: page(() => import('../pages/settings/confirm-email.tsx'), 'ConfirmEmail'),
  },
  {
    pattern: '/operator/organizations',
    for: 'operator',
    page: page(() => import('../pages/operator/organizations.tsx'), 'Organizations'),
  },
  {
    pattern: '/operator/organizations/:id',
    for: 'operator',
    page: page(() => import('../pages/operator/organization.tsx'), 'OperatorOrganization'),
  },
  {
    pattern: '/operator/organizations/:id/invoices/:invoiceId',
    for: 'operator',
    page: page(() => import('../pages/operator/invoice.tsx'), 'OperatorInvoice'),
  },
  {
    pattern: '/operator/keys',
    for: 'operator',
    page: page(() => import('../pages/operator/keys.tsx'), 'OperatorKeys'),
  },
  {
    pattern: '/operator/models',
    for: 'operator',
    page: page(() => import('../pages/operator/models.tsx'), 'OperatorModels'),
  },
  {
    pattern: '/operator/models/*id',
    for: 'operator',
    page: page(() => import('../pages/operator/model.tsx'), 'OperatorModel'),
  },
  {
    pattern: '/operator/retirements',
    for: 'operator',
    page: page(() => import('../pages/operator/retirements.tsx'), 'Retirements'),
  },
  { pattern: '/operator/plans', for: 'operator', page: page(() => import('../pages/operator/plans.tsx'), 'Plans') },
  {
    pattern: '/operator/coupons',
    for: 'operator',
    page: page(() => import('../pages/operator/coupons.tsx'), 'Coupons'),
  },
  {
    pattern: '/operator/jobs',
    for: 'operator',
    page: page(() => import('../pages/operator/jobs.tsx'), 'OperatorJobs'),
  },
  {
    pattern: '/operator/calls',
    for: 'operator',
    page: page(() => import('../pages/operator/calls.tsx'), 'OperatorCalls'),
  },
  { pattern: '/operator/mail', for: 'operator', page: page(() => import('../pages/operator/mail.tsx'), 'Mail') },
  {
    pattern: '/operator/audit',
    for: 'operator',
    page: page(() => import('../pages/operator/audit.tsx'), 'OperatorAudit'),
  },
  {
    pattern: '/operator/signing-keys',
    for: 'operator',
    page: page(() => import('../pages/operator/signing-keys.tsx'), 'SigningKeys'),
  },
  { pattern: '/operator/health', for: 'operator', page: page(() => import('../pages/operator/health.tsx'), 'Health') },
];

function routeFor(path: string) {
  for (const route of routes) {
    const parameters = matchPath(route.pattern, path);
    if (parameters !== null) return { route, parameters };
  }
  return null;
}

/** Fetches the file of a page while it is still unknown whether someone is signed in. */
export const preloadPage = (path: string): void => routeFor(path)?.route.page.preload();

/** Whether the page at `path` is shown without a session. */
export const isPublicPath = (path: string): boolean => routeFor(path)?.route.for === 'public';

/** The page at `path`. It takes the focus, unless it is the one at which the portal was `opened`: there the browser decides. */
export function RoutedPage({ path, opened = false }: { path: string; opened?: boolean }) {
  const claims = useClaims();
  const found = routeFor(path);
  const seen =
    found !== null &&
    (found.route.for !== 'admin' || claims.role !== 'member') &&
    (found.route.for !== 'operator' || claims.operator);
  const Shown: ComponentType<PageParameters> = seen ? found.route.page : NotFound;
  return (
    <CrashGuard key={path}>
      <Suspense fallback={<PageSkeleton />}>
        <Shown parameters={found?.parameters ?? {}} />
        {!opened && <TitleFocus />}
      </Suspense>
    </CrashGuard>
  );
}

/**
 * After a change of page the focus moves to its title, so that a screen reader starts there. It waits until the page's file has loaded, and
 * until anything open over the last page, such as the navigation on a phone, has closed and returned its focus. Whoever has gone on into the
 * new page by then, or has opened something over it, such as the search, stays there. A page that was hidden while its user signed in again
 * has its own focus back.
 */
function TitleFocus() {
  const moved = useRef(false);
  useEffect(() => {
    if (moved.current) return;
    const before = document.activeElement;
    const timer = window.setTimeout(() => {
      moved.current = true;
      const now = document.activeElement;
      const isInDialog = now?.closest('[role="dialog"][data-state="open"]') != null;
      const wentOn = now !== before && now?.closest('main *, [role="menu"]') != null;
      if (!isInDialog && !wentOn) document.querySelector<HTMLElement>('main h1')?.focus({ preventScroll: true });
    }, 60);
    return () => window.clearTimeout(timer);
  }, []);
  return null;
}

function PageSkeleton() {
  return (
    <div role="status" aria-label="Loading" className="mx-auto grid w-full max-w-6xl gap-4 px-4 pt-9 sm:px-8">
      <Skeleton className="h-7 w-48" />
      <Skeleton className="h-32 w-full rounded-xl" />
      <Skeleton className="h-64 w-full rounded-xl" />
    </div>
  );
}
