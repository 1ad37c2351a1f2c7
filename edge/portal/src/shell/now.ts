import { useSyncExternalStore } from 'react';
import { currentMs } from '../api/server-clock.ts';

let now = currentMs();

function subscribe(listener: () => void): () => void {
  const timer = window.setInterval(() => {
    now = currentMs();
    listener();
  }, 30_000);
  now = currentMs();
  return () => window.clearInterval(timer);
}

/** The current time in milliseconds, updated every half minute: for countdowns. */
export const useNow = (): number => useSyncExternalStore(subscribe, () => now);
