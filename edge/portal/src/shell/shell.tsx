import { Dialog as Radix } from 'radix-ui';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { useClaims, useGet } from '../api/hooks.ts';
import type { Profile } from '../api/types.ts';
import { Link } from '../router/link.tsx';
import { IconButton } from '../ui/button.tsx';
import { classNames } from '../ui/class-names.ts';
import { useCloseOnBack } from '../ui/close-on-back.ts';
import { Icon } from '../ui/icons.tsx';
import { Notice } from '../ui/notice.tsx';
import { shortcut } from '../ui/shortcut.ts';
import { Segments } from '../ui/tabs.tsx';
import { useKeptPlace } from './kept-place.ts';
import { Logo } from './logo.tsx';
import { type Area, areaOf, isCurrent, navigationFor } from './navigation.ts';
import { Palette } from './palette.tsx';
import { UserMenu } from './user-menu.tsx';

/** How often a suspended organization is read, whose people wait for its end. */
const suspendedRefreshMs = 10_000;

const isSuspended = (profile: Profile | undefined): boolean => profile?.organization.status === 'suspended';

/** What surrounds every page of a signed-in user: navigation, search, account. */
export function Shell({ path, children }: { path: string; children: ReactNode }) {
  const [drawer, setDrawer] = useState(false);
  const [palette, setPalette] = useState(false);
  const claims = useClaims();
  const profile = useGet<Profile>('/profile', undefined, {
    refetchIntervalMs: (read) => (isSuspended(read) ? suspendedRefreshMs : undefined),
  });
  const content = useRef<HTMLElement>(null);
  useKeptPlace(content);
  useCloseOnBack(drawer, () => setDrawer(false));
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new page closes the drawer, and is about an organization as it is now.
  useEffect(() => {
    setDrawer(false);
    if (profile.isStale) void profile.refetch();
  }, [path]);
  useEffect(() => {
    const open = (event: KeyboardEvent) => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        setPalette((shown) => !shown);
      }
    };
    window.addEventListener('keydown', open);
    return () => window.removeEventListener('keydown', open);
  }, []);

  return (
    <div className="lg:grid lg:grid-cols-[15rem_minmax(0,1fr)] print:block">
      <a
        href="#content"
        className="sr-only z-100 rounded-md bg-fill px-3 py-2 text-on-fill focus:not-sr-only focus:absolute focus:top-2 focus:left-2"
      >
        Skip to content
      </a>
      <aside className="sticky top-0 hidden h-dvh flex-col border-r border-line bg-canvas lg:flex print:hidden">
        <SideBar path={path} profile={profile.data} onSearch={() => setPalette(true)} />
      </aside>
      <header className="sticky top-0 z-30 flex h-13 items-center justify-between border-b border-line bg-canvas px-2 lg:hidden print:hidden">
        <IconButton icon="menu" label="Open navigation" onClick={() => setDrawer(true)} className="size-10" />
        <Link href="/" className="flex items-center gap-2 font-semibold">
          <Logo className="size-6" />
          Model Gateway
        </Link>
        <IconButton icon="search" label="Search" onClick={() => setPalette(true)} className="size-10" />
      </header>
      <Radix.Root open={drawer} onOpenChange={setDrawer}>
        <Radix.Portal>
          <div data-scroll-lock className="fixed inset-0 z-40 bg-scrim lg:hidden" />
          <Radix.Content
            aria-describedby={undefined}
            className="raised fixed inset-y-0 left-0 z-50 flex w-72 max-w-[85vw] flex-col bg-canvas lg:hidden"
          >
            <Radix.Title className="sr-only">Navigation</Radix.Title>
            <SideBar path={path} profile={profile.data} onSearch={() => setPalette(true)} />
          </Radix.Content>
        </Radix.Portal>
      </Radix.Root>
      <main ref={content} id="content" tabIndex={-1} className="min-w-0 outline-none">
        {isSuspended(profile.data) && (
          <div className="px-4 pt-4 sm:px-8">
            <Notice
              tone="danger"
              className="mx-auto max-w-6xl"
              action={
                claims.operator ? (
                  <Link href={`/operator/organizations/${claims.tenantId}`} className="shrink-0 font-medium underline">
                    Restore it
                  </Link>
                ) : undefined
              }
            >
              <strong className="font-semibold">{profile.data?.organization.name} is suspended.</strong> Inference, jobs
              and realtime are refused for keys and sessions alike. Usage and billing can still be read. Only an
              operator of the platform can restore it, once an owner or admin has settled the matter with them.
            </Notice>
          </div>
        )}
        {children}
      </main>
      <Palette open={palette} onClose={() => setPalette(false)} />
    </div>
  );
}

/** An operator has more pages than fit into a laptop's height. */
function bringIntoSight(item: HTMLElement | null): void {
  const list = item?.closest('nav');
  if (item === null || list == null) return;
  const own = item.getBoundingClientRect();
  const shown = list.getBoundingClientRect();
  // Not by scrollIntoView: Tab would then continue from here, and never come by the link past the navigation.
  list.scrollTop += Math.min(0, own.top - distance - shown.top) + Math.max(0, own.bottom + distance - shown.bottom);
}

/** From the edge of what is in sight, in pixels. */
const distance = 16;

function SideBar({ path, profile, onSearch }: { path: string; profile: Profile | undefined; onSearch: () => void }) {
  const claims = useClaims();
  // Holds until another page is opened, which shows its own area again.
  const [chosen, setChosen] = useState<{ area: Area; path: string } | null>(null);
  const area = chosen?.path === path ? chosen.area : areaOf(path);
  const groups = navigationFor(claims).filter((group) => group.area === area);
  return (
    <>
      <div className="px-3 pt-4 pb-2">
        <Link href="/" className="flex items-center gap-2.5 rounded-md px-2 py-1">
          <Logo />
          <span className="min-w-0">
            <span className="block truncate text-sm leading-tight font-semibold">
              {profile?.organization.name ?? 'Model Gateway'}
            </span>
            <span className="block text-xs leading-tight text-faint">Model Gateway</span>
          </span>
        </Link>
        <button
          type="button"
          onClick={onSearch}
          className="mt-3 flex h-8 w-full items-center gap-2 rounded-md border border-line bg-surface px-2.5 text-sm text-faint hover:text-ink"
        >
          <Icon name="search" className="size-3.5" />
          <span className="flex-1 text-left">Go to…</span>
          <kbd className="font-sans text-xs">{shortcut('K')}</kbd>
        </button>
      </div>
      <nav aria-label="Main" className="min-h-0 flex-1 overflow-y-auto px-3 pb-4">
        {claims.operator && (
          <Segments
            label="Pages of"
            value={area}
            onChange={(next) => setChosen({ area: next === 'platform' ? 'platform' : 'organization', path })}
            choices={[
              { value: 'organization', label: 'Organization' },
              { value: 'platform', label: 'Platform' },
            ]}
          />
        )}
        {groups.map((group) => (
          <div key={group.name} className="mt-3">
            <p className="px-2 pb-1 text-xs font-medium text-faint">{group.name}</p>
            <ul>
              {group.items.map((item) => {
                const current = isCurrent(item.href, path);
                return (
                  <li key={item.href} ref={current ? bringIntoSight : undefined}>
                    <Link
                      href={item.href}
                      aria-current={current ? 'page' : undefined}
                      className={classNames(
                        'flex h-9 items-center gap-2.5 rounded-md px-2 text-sm font-medium lg:h-7.5',
                        current ? 'bg-sunken text-ink' : 'text-soft hover:bg-sunken hover:text-ink',
                      )}
                    >
                      <Icon name={item.icon} className={current ? 'size-4 text-accent' : 'size-4'} />
                      {item.name}
                    </Link>
                  </li>
                );
              })}
            </ul>
          </div>
        ))}
      </nav>
      <UserMenu profile={profile} />
    </>
  );
}
