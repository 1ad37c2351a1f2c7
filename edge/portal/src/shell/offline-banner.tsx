import { useSyncExternalStore } from 'react';
import { useReachable } from '../api/hooks.ts';
import { Icon } from '../ui/icons.tsx';

function subscribe(listener: () => void): () => void {
  window.addEventListener('online', listener);
  window.addEventListener('offline', listener);
  return () => {
    window.removeEventListener('online', listener);
    window.removeEventListener('offline', listener);
  };
}

/** Says that the network or the gateway is gone, so that the page may be out of date. */
export function OfflineBanner() {
  const online = useSyncExternalStore(subscribe, () => navigator.onLine);
  const reachable = useReachable();
  if (online && reachable) return null;
  return (
    <div
      role="alert"
      className="sticky top-0 z-90 flex items-center justify-center gap-2 bg-warn-soft px-4 py-2 text-sm text-ink"
    >
      <Icon name="warning" className="text-warn" />
      {online ? 'The gateway cannot be reached. Trying again…' : 'You are offline. What you see may be out of date.'}
    </div>
  );
}
