import { type DefaultOptions, QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import type { Api } from './api/client.ts';
import { ApiContext, useSession } from './api/hooks.ts';
import { isPublicPath, RoutedPage } from './router/routed-page.tsx';
import { navigate, usePlace } from './router/router.ts';
import { OfflineBanner } from './shell/offline-banner.tsx';
import { Shell } from './shell/shell.tsx';
import { Splash } from './shell/splash.tsx';
import { ToastProvider } from './ui/toast.tsx';

/**
 * Whatever the browser thinks of the network, each request is made at once and fails if it must. One that waited for the network would
 * be made when nobody wants it any more, and a gateway on this very machine answers without any.
 */
const defaultOptions: DefaultOptions = {
  queries: {
    networkMode: 'always',
    // However fresh the answers are: the first of them tells that the gateway is there again.
    refetchOnReconnect: 'always',
    refetchOnWindowFocus: true,
    retry: false,
    staleTime: 15_000,
  },
  mutations: { networkMode: 'always' },
};

export function App({ api }: { api: Api }) {
  const [queries] = useState(() => new QueryClient({ defaultOptions }));
  useEffect(() => {
    // What one user saw must not greet the next.
    return api.subscribe(() => {
      if (api.session().status === 'signed-out') queries.clear();
    });
  }, [api, queries]);
  return (
    <ApiContext value={api}>
      <QueryClientProvider client={queries}>
        <ToastProvider>
          <OfflineBanner />
          <Gate api={api} />
        </ToastProvider>
      </QueryClientProvider>
    </ApiContext>
  );
}

/** Lets signed-in users through; sends the others to sign in, and back to where they were going afterwards. */
function Gate({ api }: { api: Api }) {
  const session = useSession();
  const place = usePlace();
  const open = isPublicPath(place.path);
  const leaving = session.status === 'signed-out' && !open;
  const next = place.path === '/' ? '' : `?next=${encodeURIComponent(place.path + place.search)}`;
  useEffect(() => {
    if (leaving) navigate(`/sign-in${next}`, { replace: true });
  }, [leaving, next]);

  if (open) return <RoutedPage path={place.path} />;
  if (session.status === 'signed-in') {
    return (
      <Shell path={place.path}>
        <RoutedPage path={place.path} />
      </Shell>
    );
  }
  return <Splash failed={session.status === 'unreachable'} retry={() => void api.start()} />;
}
