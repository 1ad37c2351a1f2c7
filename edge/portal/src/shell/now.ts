import { useSyncExternalStore } from 'react';

let now = Date.now();

function subscribe(listener: () => void): () => void {
  const timer = window.setInterval(() => {
    now = Date.now();
    listener();
  }, 30_000);
  now = Date.now();
  return () => window.clearInterval(timer);
}

/** The current time in milliseconds, updated every half minute: for countdowns. */
export const useNow = (): number => useSyncExternalStore(subscribe, () => now);
