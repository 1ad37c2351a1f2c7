import { useSyncExternalStore } from 'react';
import { currentMs } from '../api/server-clock.ts';

let now = currentMs();
let timer = 0;
const listeners = new Set<() => void>();

const update = () => {
  now = currentMs();
  for (const listener of listeners) listener();
};

function subscribe(listener: () => void): () => void {
  if (listeners.size === 0) {
    now = currentMs();
    timer = window.setInterval(update, 30_000);
  }
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) window.clearInterval(timer);
  };
}

/** The current time in milliseconds, updated every half minute: for countdowns. */
export const useNow = (): number => useSyncExternalStore(subscribe, () => now);
