import { type DefaultOptions, QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { Activity, useEffect, useLayoutEffect, useRef, useState } from 'react';
import type { Api } from './api/client.ts';
import { ApiContext, useSession } from './api/hooks.ts';
import { type KeptStates, KeptStatesContext } from './api/kept-state.ts';
import { isPublicPath, RoutedPage, signInPath } from './router/routed-page.tsx';
import { navigate, usePlace } from './router/router.ts';
import { CrashGuard } from './shell/crash-guard.tsx';
import { OfflineBanner } from './shell/offline-banner.tsx';
import { Shell } from './shell/shell.tsx';
import { Splash } from './shell/splash.tsx';
import { ToastProvider } from './ui/toast.tsx';

/**
 * Each request is made at once and fails if it must, whatever the browser thinks of the network. A request that waited for the network
 * would be made when nobody wants it any more, and a gateway on this machine answers without any.
 */
const defaultOptions: DefaultOptions = {
  queries: {
    networkMode: 'always',
    // However fresh the answers are: the first one tells that the gateway is back.
    refetchOnReconnect: 'always',
    // However fresh the answers are: a key may just have been made in another tab.
    refetchOnWindowFocus: 'always',
    retry: false,
    staleTime: 15_000,
  },
  mutations: { networkMode: 'always' },
};

export function App({ api, kept }: { api: Api; kept: KeptStates }) {
  const [queries] = useState(() => new QueryClient({ defaultOptions }));
  useEffect(() => {
    // What one user saw must not be shown to the next.
    return api.subscribe(() => {
      if (api.session().status === 'signed-out') queries.clear();
    });
  }, [api, queries]);
  return (
    <ApiContext value={api}>
      <QueryClientProvider client={queries}>
        <KeptStatesContext value={kept}>
          <ToastProvider>
            <OfflineBanner />
            <CrashGuard>
              <Gate api={api} />
            </CrashGuard>
          </ToastProvider>
        </KeptStatesContext>
      </QueryClientProvider>
    </ApiContext>
  );
}

/**
 * Lets signed-in users through; sends others to sign in, and back to where they were going afterwards. When a session ends unexpectedly,
 * its page stays below the form as it was, with everything being typed.
 */
function Gate({ api }: { api: Api }) {
  const session = useSession();
  const place = usePlace();
  // Kept here, where it outlives the change from the sign-in form to a page: that page is not the first one.
  const first = useRef<string | null>(place.path);
  if (first.current !== place.path) first.current = null;
  const opened = first.current !== null;
  const open = isPublicPath(place.path);
  const leaving = session.status === 'signed-out' && !open;
  const next =
    place.path === '/' ? '' : `?next=${encodeURIComponent(place.path + place.search + window.location.hash)}`;
  useEffect(() => {
    if (leaving) navigate(`${signInPath}${next}`, { replace: true });
  }, [leaving, next]);

  if (open) return <RoutedPage path={place.path} opened={opened} />;
  if ('claims' in session) {
    const ended = session.status === 'ended';
    return (
      <>
        <Activity mode={ended ? 'hidden' : 'visible'}>
          <FocusKept />
          <Shell path={place.path}>
            <RoutedPage path={place.path} opened={opened} />
          </Shell>
        </Activity>
        {ended && <RoutedPage path={signInPath} />}
      </>
    );
  }
  return <Splash failed={session.status === 'unreachable'} retry={() => void api.start()} />;
}

/** Returns the focus to where it was when the surrounding page was hidden. */
function FocusKept() {
  const last = useRef<Element | null>(null);
  useLayoutEffect(() => {
    if (last.current instanceof HTMLElement) last.current.focus();
    return () => {
      last.current = document.activeElement;
    };
  }, []);
  return null;
}
